"""The commands about data: `check`, `convert` and `data add`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from enginehouse.choices import find_choice, list_choices
from enginehouse.errors import RecipeError
from enginehouse.project import Project
from flows.recipes import load_recipe

if TYPE_CHECKING:
    from enginehouse.ingest.ingest import IngestConfig
    from enginehouse.validate.validate import ValidateConfig

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

    data = verbs.add_parser("data", help="data versions")
    words = data.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add = words.add_parser("add", help="check new files, merge them into data/, dvc add, dvc push")
    add.add_argument("folder", type=Path, help="the new files")
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


def _data_add(project: Project, options: argparse.Namespace) -> int:
    from flows.console import Console
    from flows.data_add import add_data, make_check, render_added
    from tasks._stage import PROGRESS

    with Console():
        added = add_data(
            project,
            options.folder,
            options.into,
            options.recipe,
            make_check(project),
            PROGRESS.info,
            replace=options.replace,
        )
    print(render_added(project, added))
    return 1 if added.unpushed else 0
