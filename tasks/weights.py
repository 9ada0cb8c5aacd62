"""The weights that a recipe starts from: a file, found or downloaded, and kept in the store."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from enginehouse.choices import find_choice, load_choice
from enginehouse.code_digest import find_libraries
from enginehouse.errors import RecipeError, first_line
from enginehouse.project import Project
from enginehouse.recipe import Recipe
from enginehouse.store import Blob, Store, hash_file
from enginehouse.train.pretrained import FILE
from enginehouse.train.record import ModelConfig, Pretrained
from enginehouse.train.weights import find_format

NONE, DEFAULT = "none", "default"


def resolve_weights(
    project: Project, recipe: Recipe, store: Store, say: Callable[[str], None]
) -> Pretrained | None:
    """What training starts from, by content; None for random weights.

    Args:
        say: told before something is downloaded.

    Raises:
        RecipeError: no such file, one that holds no weights, or a default that cannot be had.
    """
    if recipe.weights == NONE:
        return None
    if recipe.weights == DEFAULT:
        return _find_default(recipe.train.model, store, say)
    path = project.root / Path(recipe.weights).expanduser()
    try:
        find_format(path, recipe.weights)
        return Pretrained(files={FILE: _keep(path, store)}, notes={"source": recipe.weights})
    except OSError as error:
        near = sorted(each.name for each in path.parent.glob("*") if each.is_file())[:5]
        raise RecipeError(
            f"weights: {path} cannot be read: {error.strerror or first_line(error)}.",
            f"Name a file relative to {project.root}, or absolute"
            + (f"; {path.parent} holds {', '.join(near)}." if near else "."),
        ) from error


def _find_default(model: ModelConfig, store: Store, say: Callable[[str], None]) -> Pretrained:
    """The family's weights; remembered, so that a later run asks no library and no network."""
    place = f"weights/{model.family}.{model.name}"
    libraries = find_libraries([find_choice("models", model.family)])
    remembered = store.recall(place)
    if found := _take_remembered(remembered, libraries, store):
        return found
    say(f"weights: looking for the default weights of {model.name}")
    default = load_choice("models", model.family).find_default(model.name)
    find_format(default.path, default.source)
    record = Pretrained(
        files={FILE: _keep(default.path, store)},
        notes={"source": default.source},
        mean=default.mean,
        std=default.std,
    )
    store.remember(place, {"libraries": libraries, "record": record.model_dump(mode="json")})
    return record


def _take_remembered(remembered: Any, libraries: dict[str, str], store: Store) -> Pretrained | None:
    """What was found before, if the same libraries are here and the store still holds it."""
    if not isinstance(remembered, dict) or remembered.get("libraries") != libraries:
        return None
    try:
        record = Pretrained.model_validate(remembered.get("record"))
    except ValidationError:
        return None
    blob = record.files.get(FILE)
    return record if blob and not store.find_fault(blob) else None


def _keep(path: Path, store: Store) -> Blob:
    """Put a copy of a file into the store, unless it is there."""
    blob = Blob(sha256=hash_file(path), size=path.stat().st_size)
    if store.find_fault(blob) is None:
        return blob
    key = f"weights-{blob.sha256}"
    with store.lock(key, lambda: None), store.open_scratch(key) as scratch:
        copy = scratch / FILE
        shutil.copyfile(path, copy)
        return store.seal(copy)
