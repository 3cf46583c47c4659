"""Which shape of contents a chat template reads: one string, or a list of parts. Knows jinja's syntax tree.

vLLM decides it from the template alone (``--chat-template-content-format auto``): a template that loops over
the content of a message reads parts. The same rule here, with the same limits: assignments are followed by
name only, whatever their scope, and a template in which a loop or an assignment over messages unpacks its
target reads strings.
"""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

from gateway.prompt.messages import ContentFormat


class _Unpacked(Exception):
    """A target that is no plain name: the rule gives up."""


def content_format(tree: nodes.Template) -> ContentFormat:
    """``"openai"`` (parts) or ``"string"`` for the parsed template ``tree``."""
    try:
        return "openai" if _loops_over_content(tree) else "string"
    except _Unpacked:
        return "string"


def _loops_over_content(tree: nodes.Template) -> bool:
    messages = _message_names(tree)
    parameters = _content_parameters(tree, messages)
    for loop in tree.find_all(nodes.For):
        if any(_reads(loop.iter, name, "content") for name in messages):
            return bool(_name(loop.target))
        if isinstance(loop.iter, nodes.Name) and loop.iter.name in parameters.get(id(loop), {"content"}):
            return bool(_name(loop.target))
    return False


def _message_names(tree: nodes.Template) -> list[str]:
    """Names of loop variables that run over the messages."""
    lists = list(_list_names(tree))
    return [_name(loop.target) for loop in tree.find_all(nodes.For) if any(_reads(loop.iter, name) for name in lists)]


def _list_names(tree: nodes.Template) -> Iterator[str]:
    """``messages`` and every name that it, or a slice or filter of it, is assigned to."""
    seen = ["messages"]
    for name in seen:
        yield name
        for assign in tree.find_all(nodes.Assign):
            if _reads(assign.node, name) and _name(assign.target) not in seen:
                seen.append(_name(assign.target))


def _content_parameters(tree: nodes.Template, messages: list[str]) -> dict[int, set[str]]:
    """For each loop inside a macro: the macro's parameters that some call gives a message's content."""
    parameters: dict[int, set[str]] = {}
    for macro in tree.find_all(nodes.Macro):
        calls = [call for call in tree.find_all(nodes.Call) if _reads_name(call.node, macro.name)]
        given = {name for call in calls for name in _content_arguments(macro, call, messages)}
        for loop in macro.find_all(nodes.For):
            parameters[id(loop)] = given or parameters.get(id(loop), set())
    return parameters


def _content_arguments(macro: nodes.Macro, call: nodes.Call, messages: list[str]) -> Iterator[str]:
    names = [parameter.name for parameter in macro.args]
    given = list(zip(names, call.args)) + [(kw.key, kw.value) for kw in call.kwargs if kw.key in names]
    for name, value in given:
        if any(_reads(value, message, "content") for message in messages):
            yield name


def _reads(node: nodes.Node | None, name: str, key: str = "") -> bool:
    """Whether ``node`` is the variable ``name`` (or its item ``key``), perhaps filtered, tested or sliced."""
    while isinstance(node, nodes.Filter | nodes.Test) or (
        isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Slice)
    ):
        node = node.node
    if not key:
        return _reads_name(node, name)
    if isinstance(node, nodes.Getitem):
        return _reads_name(node.node, name) and isinstance(node.arg, nodes.Const) and node.arg.value == key
    return isinstance(node, nodes.Getattr) and _reads_name(node.node, name) and node.attr == key


def _reads_name(node: nodes.Node | None, name: str) -> bool:
    return isinstance(node, nodes.Name) and node.ctx == "load" and node.name == name


def _name(target: nodes.Node) -> str:
    if not isinstance(target, nodes.Name):
        raise _Unpacked
    return target.name
