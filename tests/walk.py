"""Walk the tiny recipe's road as plain calls, without Prefect and MLflow (run by the tests)."""

from enginehouse.project import find_project
from enginehouse.recipe import check_recipe
from flows.environment import prepare_environment
from flows.inspection import Inspection
from flows.recipes import load_recipe
from flows.road import plainly, walk
from flows.run import make_context
from tasks._stage import PROGRESS
from tasks.data import resolve_data

project = find_project()
prepare_environment(project)
recipe = load_recipe(project, "tiny")
check_recipe(recipe)
resolved = resolve_data(project, recipe.data.path, PROGRESS.info)
context = make_context(project.open_store(), recipe, resolved)
inspection = Inspection(project, recipe.name, resolved, context.store)
walk(recipe, resolved.version, plainly(context), inspection)
