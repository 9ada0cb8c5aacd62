"""Recipes by name, read from `prefect.yaml`. Knows the file, and nothing of Prefect."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from enginehouse.choices import suggest
from enginehouse.errors import RecipeError
from enginehouse.project import MARK, Project
from enginehouse.recipe import Recipe

FLOW = "flows.retrain.retrain"
FLOW_NAME = "retrain"


@dataclass(frozen=True)
class Deployment:
    """One entry of `deployments` in prefect.yaml."""

    name: str
    entrypoint: str
    pool: str
    parameters: dict[str, Any]

    @property
    def full_name(self) -> str:
        """`<flow>/<name>`, as Prefect says it; our flows are named like their functions."""
        return f"{self.entrypoint.rpartition('.')[2]}/{self.name}"


def read_deployments(project: Project) -> list[Deployment]:
    """All deployments of a project.

    Raises:
        RecipeError: prefect.yaml is no YAML, or an entry lacks something.
    """
    path = project.root / MARK
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))["deployments"]
        return [
            Deployment(
                *(entry["name"], entry["entrypoint"], entry["work_pool"]["name"]),
                parameters=entry.get("parameters", {}),
            )
            for entry in entries
        ]
    except (yaml.YAMLError, KeyError, TypeError) as error:
        raise RecipeError(
            f"{path} cannot be read: {error!r}"[:500],
            "Each deployment needs name, entrypoint and work_pool.name; compare with "
            "`git diff prefect.yaml`.",
        ) from error


def list_recipes(project: Project) -> list[str]:
    """Names of the recipes: the deployments of flow `retrain`."""
    return [each.name for each in read_deployments(project) if each.entrypoint == FLOW]


def load_recipe(project: Project, name: str) -> Recipe:
    """The recipe of that name.

    Raises:
        RecipeError: there is none (the near ones are named), or a field is wrong (it is named).
    """
    for each in read_deployments(project):
        if each.entrypoint == FLOW and each.name == name:
            return parse_recipe(each.parameters.get("recipe", {}), f"{MARK}: recipe {name}")
    known = list_recipes(project)
    raise RecipeError(
        f"No recipe is named {name!r} in {MARK}; there are {', '.join(known) or 'none'}.",
        f"Use one of them{suggest(name, known)}, or add a deployment of {FLOW}.",
    )


def parse_recipe(data: Any, where: str) -> Recipe:
    """A recipe from plain data.

    Raises:
        RecipeError: names each wrong field, what was found, and near names for unknown ones.
    """
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        found = error.errors(include_url=False)
        places = [wrong["loc"] for wrong in found]
        # A fault within a field also shows as a fault of the field (a tuple with no good item).
        wrongs = [w for w in found if not any(_lies_within(place, w["loc"]) for place in places)]
        lines = "".join(f"\n  - {_say(wrong['loc'], wrong)}" for wrong in wrongs)
        raise RecipeError(
            f"{where} has {len(wrongs)} wrong field(s):{lines}",
            "Mend it; src/enginehouse/recipe.py describes every field.",
        ) from error


def _lies_within(place: tuple[int | str, ...], outer: tuple[int | str, ...]) -> bool:
    return place != outer and place[: len(outer)] == outer


def _say(place: tuple[int | str, ...], wrong: Any) -> str:
    path = ".".join(map(str, place)) or "recipe"
    if wrong["type"] == "extra_forbidden":
        known = _fields_at(place[:-1])
        near = suggest(str(place[-1]), known)
        return f"{path}: there is no such field{near}; there are {', '.join(known)}"
    if wrong["type"] == "missing":
        return f"{path}: it is required, and missing"
    message = wrong["msg"].removeprefix("Value error, ")
    found = "" if isinstance(wrong["input"], dict | list) else f" (found {wrong['input']!r})"
    return f"{path}: {message}{found}"


def _fields_at(place: Iterable[int | str]) -> list[str]:
    """The field names that the recipe has at a place."""
    model: type[BaseModel] = Recipe
    for step in place:
        if isinstance(step, str):
            kind = model.model_fields[step].annotation
            # A tuple of models: what matters is its item.
            model = get_args(kind)[0] if get_origin(kind) is tuple else kind  # type: ignore[assignment]
    return list(model.model_fields)
