"""Whether a template reads strings or parts is told from the template alone, as vLLM tells it."""

from __future__ import annotations

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gateway.prompt.content_format import content_format


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}{{ m.content }}{% endfor %}",
        "{% for m in messages %}{% for c in m['tool_calls'] %}{{ c }}{% endfor %}{% endfor %}",
        "{% for m in messages[0].content %}{{ m }}{% endfor %}",
        "{% for x in other %}{% for y in x.content %}{{ y }}{% endfor %}{% endfor %}",
        "{% macro show(text) %}{% for p in text %}{{ p }}{% endfor %}{% endmacro %}{{ show('x') }}",
        "{% for a, b in messages %}{% for c in a.content %}{{ c }}{% endfor %}{% endfor %}",
        "{% set ns.list = messages %}{% for m in messages %}{% for c in m.content %}{% endfor %}{% endfor %}",
        "",
    ],
)
def test_templates_that_read_strings(source: str) -> None:
    """No loop over the content of a message."""
    assert content_format(ImmutableSandboxedEnvironment().parse("{% set ns = namespace() %}" + source)) == "string"


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endfor %}",
        "{% for m in messages %}{% for c in m['content'] %}{{ c.text }}{% endfor %}{% endfor %}",
        "{% for m in messages[1:] | list %}{% for c in m.content | reverse %}{{ c }}{% endfor %}{% endfor %}",
        "{% set a = messages %}{% set b = a[1:] %}{% for m in b %}{% for c in m.content %}{% endfor %}{% endfor %}",
        "{% for m in messages %}{% set content = m.content %}{% for c in content %}{{ c }}{% endfor %}{% endfor %}",
        (
            "{% macro show(text) %}{% for p in text %}{{ p }}{% endfor %}{% endmacro %}"
            "{% for m in messages %}{{ show(m.content) }}{% endfor %}"
        ),
        (
            "{% macro show(x, text) %}{% for p in text %}{{ p }}{% endfor %}{% endmacro %}"
            "{% for m in messages %}{{ show(1, text=m['content']) }}{% endfor %}"
        ),
    ],
)
def test_templates_that_read_parts(source: str) -> None:
    """A loop over it, directly, by another name, or in a macro that is given it."""
    assert content_format(ImmutableSandboxedEnvironment().parse(source)) == "openai"
