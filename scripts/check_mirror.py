"""Every module of the packages that does something has a test file of the same name: tests mirror the code."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

PACKAGES = ("gateway", "router_strategies", "loadtest")


def untested(root: Path) -> list[str]:
    """Modules without a test file, as lines of what is missing."""
    missing = []
    for package in PACKAGES:
        for module in sorted((root / package).rglob("*.py")):
            relative = module.relative_to(root)
            test = root / "tests" / relative.parent / f"test_{module.stem.lstrip('_')}.py"
            if not excused(relative) and does_something(module) and not test.exists():
                missing.append(f"{relative} has no {test.relative_to(root)}")
    return missing


def excused(module: Path) -> bool:
    """Package files; and strategies, each of which the contract test covers by itself."""
    is_strategy = module.parent.name == "router_strategies" and not module.stem.startswith("_")
    return is_strategy or module.stem in ("__init__", "__main__")


def does_something(module: Path) -> bool:
    """Whether any function but a constructor has a body: declarations and protocols have none."""
    nodes = ast.walk(ast.parse(module.read_text()))
    functions = (n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name != "__init__")
    return any(not all(isinstance(line, ast.Expr) for line in function.body) for function in functions)


if __name__ == "__main__":
    lines = untested(Path(__file__).resolve().parent.parent)
    print("\n".join(lines) or "every module has its tests")
    sys.exit(1 if lines else 0)
