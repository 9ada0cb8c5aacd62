"""How a name in a recipe becomes a module: the one door to the choices folders.

A choices folder lists its choices once, as `CHOICES = {name: module path}`, in its `__init__.py`.
Nothing imports a choice directly: the import graph then reaches a choice only where a config
names it, so adding one changes no other stage's code digest.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from pydantic import BaseModel, ValidationError

from enginehouse.errors import RecipeError

FOLDERS = (
    "models",
    "problems",
    "losses",
    "quantizers",
    "backends",
    "formats",
    "cleaners",
)


class Choice:
    """Annotation of a config field: its value is a name from that choices folder.

    Args:
        folder: the choices folder.
        every: a further value, which stands for all of the folder's choices.
        fact: the one name in a choice's module that those use who get this field; a key then
            holds its value, and not the code and the libraries behind the choice.
    """

    def __init__(self, folder: str, every: str | None = None, fact: str | None = None) -> None:
        assert folder in FOLDERS, folder
        self.folder = folder
        self.every = every
        self.fact = fact


def list_choices(folder: str) -> dict[str, str]:
    """The choices of a folder: name to dotted module path."""
    return dict(importlib.import_module(f"enginehouse.{folder}").CHOICES)


def find_choice(folder: str, name: str) -> str:
    """The dotted module path behind a name.

    Raises:
        RecipeError: no such choice; the message lists what there is.
    """
    known = list_choices(folder)
    if name not in known:
        raise RecipeError(
            f"{folder}: no choice is named {name!r}; there are {', '.join(sorted(known))}.",
            f"Use one of them{suggest(name, known)}.",
        )
    return known[name]


def load_choice(folder: str, name: str) -> ModuleType:
    """Import the module behind a name. Raises RecipeError as `find_choice` does."""
    return importlib.import_module(find_choice(folder, name))


def check_options(folder: str, kind: str, name: str, options: Mapping[str, float | str]) -> None:
    """Check a choice and its settings against what its module offers, as `Options`.

    Args:
        folder: the choices folder.
        kind: what its choices are called, for messages.

    Raises:
        ValueError: no such choice, or an option that it has not or cannot take; each by name.
    """
    known = list_choices(folder)
    if name not in known:
        raise ValueError(
            f"no {kind} is named {name!r}{suggest(name, known)}; there are "
            f"{', '.join(sorted(known))}"
        )
    offered: type[BaseModel] = load_choice(folder, name).Options
    try:
        offered(**options)
    except ValidationError as error:
        faults = "; ".join(_describe(fault, offered) for fault in error.errors())
        raise ValueError(f"{name}: {faults}") from error


def _describe(fault: Any, offered: type[BaseModel]) -> str:
    """What is wrong with one option."""
    name = ".".join(map(str, fault["loc"]))
    if fault["type"] == "extra_forbidden":
        there = offered.model_fields
        known = f"there are {', '.join(sorted(there))}" if there else "there are none"
        return f"no option {name!r}{suggest(name, there)}; {known}"
    message = fault["msg"].removeprefix("Value error, ")
    return f"{name}: {message} (found {fault['input']})" if name else message


def suggest(name: str, known: Any) -> str:
    """` (did you mean 'x' or 'y'?)`, or nothing when no known name is near."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""


def iter_choices(model: BaseModel) -> Iterator[tuple[str, str]]:
    """Every (folder, name) whose code a config or record calls for, nested models included."""
    for choice, value in _iter_named(model):
        if choice.fact is None:
            names = list_choices(choice.folder) if value == choice.every else (value,)
            yield from ((choice.folder, each) for each in names)


def read_facts(model: BaseModel) -> dict[str, str]:
    """Of the other choices that a config or record names: dotted name of the fact to its value."""
    return {
        f"{find_choice(choice.folder, value)}.{choice.fact}": str(
            getattr(load_choice(choice.folder, value), choice.fact)
        )
        for choice, value in _iter_named(model)
        if choice.fact is not None
    }


def _iter_named(model: BaseModel) -> Iterator[tuple[Choice, str]]:
    """Every choice that a config or record makes, and the value of its field."""
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        for note in field.metadata:
            if isinstance(note, Choice) and value is not None:
                yield note, value
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, BaseModel):
                yield from _iter_named(item)
