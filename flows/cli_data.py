"""The commands about data: `check`, `convert`, `label-errors` and `data add`."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from enginehouse.choices import find_choice, list_choices
from enginehouse.correction_sheet import is_corrections
from enginehouse.errors import RecipeError
from enginehouse.project import Project
from flows.recipes import load_recipe

if TYPE_CHECKING:
    from enginehouse.ingest.ingest import IngestConfig
    from enginehouse.recipe import Recipe
    from enginehouse.validate.validate import ValidateConfig
    from flows.folds import LabelErrors

WRONG_USAGE = 2  # as argparse has it
AUTO = "auto"  # the format that is found by content


def add_data_verbs(verbs: Any) -> None:
    """Add the commands to the parser's."""
    check = verbs.add_parser("check", help="judge a data set: what is in it, what is not trusted")
    check.set_defaults(command=_check)
    convert = verbs.add_parser("convert", help="write a data set out as COCO, YOLO or CSV")
    writers = sorted(list_choices("convert"))
    convert.add_argument("--to", required=True, choices=writers, help="format to write")
    convert.add_argument("--out", required=True, type=Path, help="new folder to write into")
    convert.add_argument(
        "--no-pictures", action="store_true", help="write the label files only, no images/"
    )
    convert.set_defaults(command=_convert)
    for verb in (check, convert):
        verb.add_argument("source", type=Path, help="folder, sheet, label file or .dvc file")
        verb.add_argument("--format", default="", help="label format (default: found by content)")
        verb.add_argument("--recipe", default="", help="read and judge as this recipe does")
        verb.add_argument("--json", action="store_true", help="everything, as one JSON document")

    errors = verbs.add_parser("label-errors", help="rank labels by doubt, as a sheet to correct")
    errors.add_argument("recipe", help="recipe in prefect.yaml")
    errors.add_argument("--data", default="", help="picture folder to use instead of the recipe's")
    errors.add_argument(
        "--folds", type=int, default=5, help="networks to train, 2 to 20 (default: 5)"
    )
    errors.add_argument("--out", type=Path, help="new .xlsx file (default: among the reports)")
    errors.set_defaults(command=_label_errors)

    data = verbs.add_parser("data", help="data versions")
    words = data.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add = words.add_parser("add", help="check new files, merge them into data/, dvc add, dvc push")
    add.add_argument("folder", type=Path, help="the new files, or one sheet of corrections")
    add.add_argument("--into", default="", help="data set below data/ (default: the folder's name)")
    add.add_argument("--recipe", default="", help="check with this recipe (default: those on it)")
    add.add_argument("--replace", action="store_true", help="put files over those of other content")
    add.set_defaults(command=_data_add)


def _check(project: Project, options: argparse.Namespace) -> int:
    from flows.check import check
    from flows.console import Console
    from flows.verdict import render_verdict

    try:
        ingest, validation = _configure(project, options)
        with Console(sys.stderr):
            verdict = check(project, options.source, ingest, validation)
    except RecipeError as error:
        return _refuse_usage(str(error))
    _print(render_verdict(verdict, options.json))
    return 1 if verdict["errors"] else 0


def _convert(project: Project, options: argparse.Namespace) -> int:
    from flows.console import Console
    from flows.convert import convert_source, find_misuse, render_converted

    try:
        ingest, _ = _configure(project, options)
        if misuse := find_misuse(options.source, options.out):
            return _refuse_usage(misuse)
        with Console(sys.stderr):
            how = (options.to, options.out, not options.no_pictures)
            verdict, written = convert_source(project, options.source, ingest, *how)
    except RecipeError as error:
        return _refuse_usage(str(error))
    _print(render_converted(verdict, written, options.json))
    return 1 if written is None else 0


def _configure(
    project: Project, options: argparse.Namespace
) -> tuple[IngestConfig, ValidateConfig]:
    """How a source is read and judged.

    Raises:
        RecipeError: there is no such source, format or recipe.
    """
    from enginehouse.ingest.ingest import IngestConfig
    from enginehouse.validate.validate import ValidateConfig

    if not os.path.exists(options.source):  # noqa: PTH110  a folder that is closed is none, too
        raise RecipeError(f"There is no file or folder {options.source}.", "Check its path.")
    ingest, validation = IngestConfig(format=AUTO), ValidateConfig.for_check()
    if options.recipe:
        recipe = load_recipe(project, options.recipe)
        ingest, validation = recipe.ingest, recipe.validation
    if options.format:
        if options.format != AUTO:
            find_choice("formats", options.format)
        ingest = ingest.model_copy(update={"format": options.format})
    return ingest, validation


def _refuse_usage(message: str) -> int:
    print(f"Error: {message}", file=sys.stderr)
    return WRONG_USAGE


def _print(text: str) -> None:
    """Print what may hold a path that is no Unicode: its odd bytes as escapes."""
    print(text.encode("utf-8", "backslashreplace").decode("utf-8"))


def _label_errors(project: Project, options: argparse.Namespace) -> int:
    from flows.console import Console
    from flows.environment import prepare_environment
    from flows.folds import render_errors
    from flows.services import temporary_prefect_server

    if misuse := _find_misuse(options.folds, options.out):
        return _refuse_usage(misuse)
    services = prepare_environment(project)
    recipe = load_recipe(project, options.recipe)
    asked = (options.data, options.folds, options.out)
    with Console():
        if services.prefect.url:
            result = _run_label_errors(recipe, *asked)
        elif (found := _look_up_errors(project, recipe, *asked)) is not None:
            result = found
        else:
            with temporary_prefect_server(project) as server:
                import flows.label_errors  # noqa: F401  slow, so while the server starts

                server.wait()
                result = _run_label_errors(recipe, *asked)
    print(render_errors(result))
    return 0


def _find_misuse(folds: int, out: Path | None) -> str:
    if not 2 <= folds <= 20:
        return f"--folds is {folds}; wanted is a number from 2 to 20."
    if out and not (is_corrections(out.name) and out.suffix.lower() == ".xlsx"):
        return (
            f"--out is {out}; wanted is corrections.xlsx or corrections-ANYTHING.xlsx, by which "
            "ingest knows it again in the data folder."
        )
    if out and out.exists():
        return f"--out: {out} is there already. Name another one, or remove it."
    return ""


def _run_label_errors(recipe: Recipe, data: str, folds: int, out: Path | None) -> LabelErrors:
    from flows.label_errors import label_errors

    return cast("LabelErrors", label_errors(recipe, data, folds, str(out or "")))


def _look_up_errors(
    project: Project, recipe: Recipe, data: str, folds: int, out: Path | None
) -> LabelErrors | None:
    """The result if all of it is known, found without Prefect: nothing would run."""
    from flows.folds import search
    from flows.road import by_look_up
    from tasks._stage import NotCached

    try:
        return search(project, recipe, data, folds, out, by_look_up)
    except NotCached:
        return None


def _data_add(project: Project, options: argparse.Namespace) -> int:
    from flows.console import Console
    from flows.data_add import add_data, make_check, render_added
    from tasks._stage import PROGRESS

    with Console(), tempfile.TemporaryDirectory() as scratch:
        folder = options.folder
        if folder.is_file():
            if not (is_corrections(folder.name) and options.into):
                return _refuse_usage(
                    f"{folder} is a file; wanted is a folder, or one sheet named corrections*.xlsx "
                    "or .csv with --into DATA SET."
                )
            folder = Path(shutil.copy(folder, scratch)).parent
        added = add_data(
            project,
            folder,
            options.into,
            options.recipe,
            make_check(project),
            PROGRESS.info,
            replace=options.replace,
        )
    print(render_added(project, added))
    return 1 if added.unpushed else 0
