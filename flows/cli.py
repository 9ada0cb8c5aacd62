"""The command line: `enginehouse run | check | convert | up | predict | data add | ...`.

Exit codes: 0 good, 1 an error or data that is rejected, 2 wrong usage, 3 waiting for a device,
4 rejected by a gate, 130 stopped by Ctrl-C, 143 by SIGTERM.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from enginehouse.errors import EnginehouseError, Interrupted
from enginehouse.project import Project, find_project
from flows.cli_data import add_data_verbs
from flows.environment import prepare_environment
from flows.recipes import load_recipe

if TYPE_CHECKING:
    from enginehouse.recipe import Recipe
    from flows.result import RunResult


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        project = find_project(options.project)
        code: int = options.command(project, options)
    except Interrupted as stop:
        print(f"Stopped. {stop.message}\n  {stop.remedy}", file=sys.stderr)
        return 128 + stop.signal
    except EnginehouseError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped. Finished stages are kept; run again to go on.", file=sys.stderr)
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="enginehouse",
        description="From a versioned image data set to a promoted inference engine.",
        epilog="Exit codes: 0 good, 1 an error or rejected data, 2 wrong usage, 3 a required "
        "engine waits for its device, 4 rejected by a gate, 130 stopped by Ctrl-C, 143 by SIGTERM.",
    )
    parser.add_argument(
        "--project", type=Path, help="checkout to work in (default: found by walking up)"
    )
    verbs = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    run = verbs.add_parser("run", help="walk the whole road: data to promoted engine")
    run.add_argument("--recipe", default="sample", help="recipe in prefect.yaml (default: sample)")
    run.add_argument("--data", default="", help="picture folder to use instead of the recipe's")
    run.add_argument(
        "--profile", action="store_true", help="write down where the time of training goes"
    )
    run.set_defaults(command=_run)

    add_data_verbs(verbs)

    up = verbs.add_parser("up", help="Prefect, MLflow and a worker on this machine, until Ctrl-C")
    up.add_argument("--prefect-port", type=int, default=4200, help="default: 4200")
    up.add_argument("--mlflow-port", type=int, default=5000, help="default: 5000")
    up.set_defaults(command=_up)

    predict = verbs.add_parser("predict", help="classify pictures with the champion engine")
    predict.add_argument("pictures", nargs="+", type=Path, help="picture files")
    predict.add_argument("--recipe", default="sample", help="whose champion (default: sample)")
    predict.add_argument("--json", action="store_true", help="all probabilities, as JSON")
    predict.set_defaults(command=_predict)

    explain = verbs.add_parser("explain", help="why each stage of the last run ran or was cached")
    explain.add_argument("--recipe", default="sample", help="whose last run (default: sample)")
    explain.set_defaults(command=_explain)

    doctor = verbs.add_parser("doctor", help="what this machine can build and run")
    doctor.set_defaults(command=_doctor)
    return parser


def _run(project: Project, options: argparse.Namespace) -> int:
    from flows.console import Console
    from flows.services import temporary_prefect_server
    from flows.summary import render_summary, suggest_next

    services = prepare_environment(project)
    recipe = load_recipe(project, options.recipe)
    with Console():
        if services.prefect.url:
            result = _retrain(recipe, options.data, options.profile)
        elif (found := _look_up(project, recipe, options.data, options.profile)) is not None:
            result = found
        else:
            with temporary_prefect_server(project) as server:
                import flows.retrain  # noqa: F401  slow, so while the server starts

                server.wait()
                result = _retrain(recipe, options.data, options.profile)
    print(render_summary(result))
    if not result.nothing_new:
        print(suggest_next(result))
    return result.exit_code


def _retrain(recipe: Recipe, data: str, profile: bool) -> RunResult:
    from flows.retrain import retrain

    return cast("RunResult", retrain(recipe, data, profile))


def _look_up(project: Project, recipe: Recipe, data: str, profile: bool) -> RunResult | None:
    """The result if nothing is new, found without Prefect: nobody watches, nothing would run."""
    from enginehouse.artifact import Workspace
    from flows.inspection import Inspection
    from flows.result import find_nothing_new
    from flows.road import by_look_up, walk
    from flows.run import Run, make_context, name_profile
    from tasks._stage import PROGRESS, NotCached
    from tasks.data import resolve_data
    from tasks.registry import Registry
    from tasks.weights import resolve_weights

    store = project.open_store()
    resolved = resolve_data(project, data or recipe.data.path, PROGRESS.info)
    folder = name_profile(project, recipe) if profile else None
    context = make_context(store, recipe, resolved, profile=folder)
    try:
        inspection = Inspection(project, recipe.name, resolved, store)
        pretrained = resolve_weights(project, recipe, store, PROGRESS.info)
        road = walk(recipe, resolved.version, by_look_up(context), inspection, pretrained)
    except NotCached:
        return None
    workspace = Workspace(store, Path(tempfile.gettempdir()), sources=context.sources)
    registry = Registry(project.state)
    step = by_look_up(context)
    return find_nothing_new(
        Run(project, recipe, resolved, context, road, registry, workspace, step)
    )


def _up(project: Project, options: argparse.Namespace) -> int:
    from flows.up import up

    return up(project, options.prefect_port, options.mlflow_port)


def _predict(project: Project, options: argparse.Namespace) -> int:
    from flows.predict import predict, render

    prepare_environment(project)
    rows = predict(project, load_recipe(project, options.recipe), options.pictures)
    print(render(rows, options.json))
    return 1 if any("error" in row for row in rows) else 0


def _explain(project: Project, options: argparse.Namespace) -> int:
    from flows.explain import explain

    print(explain(project, load_recipe(project, options.recipe).name))
    return 0


def _doctor(project: Project, options: argparse.Namespace) -> int:
    from flows.doctor import diagnose, print_findings

    prepare_environment(project)
    return print_findings(diagnose(project))


if __name__ == "__main__":
    sys.exit(main())
