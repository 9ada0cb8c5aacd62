"""The recipes in prefect.yaml, and how a faulty one is told to its writer."""

from __future__ import annotations

import re
from typing import Any

import pytest

from enginehouse.errors import RecipeError
from enginehouse.project import Project
from enginehouse.recipe import check_recipe
from flows.recipes import list_recipes, load_recipe, parse_recipe, read_deployments
from tests.conftest import ROOT

PROJECT = Project(ROOT, ROOT / ".enginehouse")
NAMES = list_recipes(PROJECT)


def make(**more: Any) -> dict[str, Any]:
    """The least that a recipe needs, and more."""
    return {"name": "line", "data": {"path": "data/line"}, **more}


def test_there_are_at_least_two_recipes() -> None:
    assert {"sample", "steel"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_recipe_can_be_run(name: str) -> None:
    recipe = load_recipe(PROJECT, name)
    assert recipe.name == name
    check_recipe(recipe)


def test_every_deployment_is_taken_by_prefect() -> None:
    # What the server checks when a deployment is made, and again when its form is sent as it is.
    from prefect.flows import Flow, load_flow_from_entrypoint
    from prefect.utilities.callables import parameter_schema
    from prefect.utilities.schema_tools.validation import validate

    for each in read_deployments(PROJECT):
        flow: Flow[..., Any]
        flow = load_flow_from_entrypoint(each.entrypoint, use_placeholder_flow=False)
        assert each.full_name == f"{flow.name}/{each.name}"
        schema = parameter_schema(flow).model_dump_for_openapi()
        validate(each.parameters, schema, raise_on_error=True, ignore_required=True)
        validate(each.parameters, schema, raise_on_error=True)
        flow.validate_parameters(each.parameters)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (make(trian={}), "trian: there is no such field (did you mean 'train'"),
        (make(train={"epoch": 3}), "train.epoch: there is no such field (did you mean 'epochs'"),
        (make(targets=[{"nmae": "a"}]), "targets.0.nmae: there is no such field (did you mean"),
        (make(prepare={"size": 17}), "prepare.size: Input should be a multiple of 8 (found 17)"),
        ({"name": "line"}, "data: it is required, and missing"),
        (make(targets=[]), "targets: "),
        (None, "recipe: "),
    ],
)
def test_each_wrong_field_is_named(data: Any, words: str) -> None:
    with pytest.raises(RecipeError, match=re.escape(words)) as caught:
        parse_recipe(data, "prefect.yaml: recipe line")
    assert "has 1 wrong field(s)" in caught.value.message


def test_an_unknown_architecture_is_told_with_near_ones() -> None:
    recipe = parse_recipe(make(train={"model": {"name": "resnet81"}}), "here")
    with pytest.raises(RecipeError, match="resnet81") as caught:
        check_recipe(recipe)
    assert "resnet18" in str(caught.value)


def test_an_unknown_recipe_is_told_with_near_ones() -> None:
    with pytest.raises(RecipeError, match="did you mean 'steel'"):
        load_recipe(PROJECT, "stel")
