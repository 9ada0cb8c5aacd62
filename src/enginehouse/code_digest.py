"""The code digest: which lines of this package a stage's result can depend on.

It is taken from the syntax trees of the modules that a stage reaches by the import graph, so
comments, docstrings, layout and the messages of errors do not count. Two cuts keep it honest and
small: `errors` is left out, `artifact` counts through its FORMAT number only (with what lies
below it: the store), and the choices folders are entered only at the choices that the stage's
config and inputs name.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from enginehouse.artifact import FORMAT
from enginehouse.choices import FOLDERS, find_choice

if TYPE_CHECKING:
    from grimp import ImportGraph

PACKAGE = "enginehouse"
LEFT_OUT = frozenset({f"{PACKAGE}.errors", f"{PACKAGE}.artifact", f"{PACKAGE}.store"})


def digest_modules(stage_module: str, choices: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Module name to digest of its syntax tree, for all that a stage's result depends on.

    Args:
        stage_module: dotted name of the stage's module.
        choices: (folder, name) pairs that the config and the inputs name.
    """
    starts = [stage_module, *(find_choice(folder, name) for folder, name in choices)]
    digests = {name: digest_module(name) for name in find_modules(starts)}
    return {**digests, f"{PACKAGE}.artifact": f"format {FORMAT}"}


def find_modules(starts: Iterable[str]) -> list[str]:
    """The modules of this package that `starts` reach, cut as the module docstring says."""
    graph = _graph()
    seen: set[str] = set()
    todo = list(starts)
    while todo:
        name = todo.pop()
        if name in seen or name in LEFT_OUT or name in _choice_lists() or name == PACKAGE:
            continue
        seen.add(name)
        todo += [
            found for found in graph.find_modules_directly_imported_by(name) if found in _modules()
        ]
        todo.append(name.rpartition(".")[0])
    return sorted(seen)


def find_libraries(starts: Iterable[str]) -> dict[str, str]:
    """Distribution to version, over the LIBRARIES that the given modules declare."""
    names = {name for module in starts for name in importlib.import_module(module).LIBRARIES}
    return {name: library_version(name) for name in sorted(names)}


def library_version(name: str) -> str:
    """The installed version of a distribution, or `none`."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


@functools.cache
def digest_module(name: str) -> str:
    """Digest of one module's syntax tree, of what can change a result."""
    path = _find_file(name)
    tree = _Stripped().visit(ast.parse(path.read_text(encoding="utf-8"), filename=path.name))
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return hashlib.sha256(f"{python}\n{ast.dump(tree)}".encode()).hexdigest()


class _Stripped(ast.NodeTransformer):
    """Drops docstrings, and the text (not the values) in what is raised."""

    def visit(self, node: ast.AST) -> ast.AST:
        """Strip one node and all below it."""
        if isinstance(node, ast.Raise):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    part.value = ""
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(ast.Constant(str())), *rest]:
                    node.body = rest or [ast.Pass()]
        return self.generic_visit(node)


@functools.cache
def _graph() -> ImportGraph:
    import grimp

    return grimp.build_graph(PACKAGE, cache_dir=None, exclude_type_checking_imports=True)


@functools.cache
def _modules() -> frozenset[str]:
    return frozenset(_graph().modules)


@functools.cache
def _choice_lists() -> frozenset[str]:
    return frozenset(f"{PACKAGE}.{folder}" for folder in FOLDERS)


def _find_file(name: str) -> Path:
    root = Path(__file__).parent
    path = root.joinpath(*name.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
