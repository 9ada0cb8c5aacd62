"""Out of fold: every picture is judged by a network that never saw it, and labels are doubted."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path

from enginehouse.answer.answer import AnswerConfig
from enginehouse.answer.record import Answers
from enginehouse.artifact import Source, Workspace
from enginehouse.correction_sheet import NAME
from enginehouse.ingest.record import DataVersion
from enginehouse.project import Project
from enginehouse.recipe import Recipe
from enginehouse.suspect.record import Suspects
from enginehouse.suspect.suspect import SuspectConfig
from enginehouse.train.record import Pretrained
from flows.candidates import Step
from flows.inspection import Inspection
from flows.road import let_through
from tasks._stage import PROGRESS, RunContext
from tasks.answer import answer_task
from tasks.data import ResolvedData, resolve_data
from tasks.prepare import prepare_task
from tasks.suspect import suspect_task
from tasks.train import train_task
from tasks.weights import resolve_weights


@dataclass(frozen=True)
class LabelErrors:
    """What a search for label errors came to.

    Attributes:
        sheet: the workbook to correct.
        kept: whether it was there already, perhaps with corrections in it, and was left alone.
    """

    project: Project
    recipe: Recipe
    resolved: ResolvedData
    suspects: Suspects
    sheet: Path
    kept: bool

    @property
    def headline(self) -> str:
        """The search in one sentence."""
        found = self.suspects
        return (
            f"label errors of {self.recipe.name}: {found.num_suspicious} of "
            f"{found.num_pictures} labels are suspicious"
        )


def search(
    project: Project,
    recipe: Recipe,
    data: str,
    folds: int,
    out: Path | None,
    make_step: Callable[[RunContext], Step],
) -> LabelErrors:
    """Search a data set for label errors; the sheet then lies where people find it.

    Args:
        data: another folder than the recipe's, or "".
        folds: networks that are trained, 2 to 20.
        out: where the sheet goes; None: among the reports. One that is there is left alone.
        make_step: how stages are run, as in `flows.road`.

    Raises:
        EnginehouseError: bad input, or a stage failed; finished stages are kept.
        Interrupted: somebody asked to stop.
    """
    store = project.open_store()
    resolved = resolve_data(project, data or recipe.data.path, PROGRESS.info)
    source = Source(resolved.folder, resolved.listing)
    # Places of its own: `explain` tells of the recipe's last run, and no run is unfinished by it.
    context = RunContext(store, f"{recipe.name}.label-errors", {resolved.digest: source})
    inspection = Inspection(project, recipe.name, resolved, store)
    pretrained = resolve_weights(project, recipe, store, PROGRESS.info)
    step = make_step(context)
    with context.stop.heed():
        found = walk_folds(recipe, resolved.version, step, inspection, folds, pretrained)
    with tempfile.TemporaryDirectory() as scratch:
        sheet = Workspace(store, Path(scratch)).path(found, NAME)
        return _put_sheet(project, recipe, resolved, found, sheet, out)


def walk_folds(
    recipe: Recipe,
    data: DataVersion,
    step: Step,
    inspection: Inspection,
    folds: int,
    pretrained: Pretrained | None = None,
) -> Suspects:
    """Train one network per fold with the recipe's own settings, and rank all pictures.

    Args:
        step: as for `flows.road.walk`.
        inspection: judges the data before anything is trained.
        folds: 2 to 20.
        pretrained: as for `flows.road.walk`.

    Raises:
        ValidationFailed: the data was not let through.
        EnginehouseError: a stage failed.
    """
    assert (pretrained is None) == (recipe.weights == "none"), "weights were not resolved"
    start = {"pretrained": pretrained} if pretrained else {}
    manifest, validated = let_through(recipe, data, step, inspection)
    answers: dict[str, Answers] = {}
    for fold in range(folds):
        name = f"fold{fold + 1}"
        config = recipe.prepare.model_copy(update={"folds": folds, "fold": fold})
        pack = step(
            *(prepare_task, f"{name}.prepare", config),
            data=data,
            manifest=manifest,
            validated=validated,
        )
        model = step(train_task, f"{name}.train", recipe.train, pack=pack, **start)
        answers[name] = step(
            *(answer_task, f"{name}.answer", AnswerConfig()), model=model, pack=pack
        )
    found: Suspects = step(
        *(suspect_task, "suspect", SuspectConfig()), data=data, manifest=manifest, **answers
    )
    return found


def _put_sheet(
    project: Project,
    recipe: Recipe,
    resolved: ResolvedData,
    suspects: Suspects,
    made: Path,
    out: Path | None,
) -> LabelErrors:
    shelf = project.state / "reports" / recipe.name / f"label-errors-{suspects.identity[:12]}"
    name = _find_free_name(resolved)
    sheet = Path(os.path.abspath(out)) if out else shelf / name  # noqa: PTH100  keeps links
    kept = sheet.exists()
    if not kept:
        sheet.parent.mkdir(parents=True, exist_ok=True)
        draft = sheet.with_name(f".{sheet.name}.part")
        shutil.copyfile(made, draft)
        draft.replace(sheet)
    return LabelErrors(project, recipe, resolved, suspects, sheet, kept)


def _find_free_name(resolved: ResolvedData) -> str:
    """A name that the sheet can have in the data folder, beside those of before."""
    stem, dot, suffix = NAME.partition(".")
    numbered = (f"{stem}-{number}{dot}{suffix}" for number in count(2))
    return next(name for name in chain([NAME], numbered) if name not in resolved.listing)


def render_errors(result: LabelErrors) -> str:
    """The closing summary: what was found, where the sheet is, and what to do with it."""
    found = result.suspects
    kept = "; it was there already and was left as it is" if result.kept else ""
    rows = [
        ("data", f"{result.resolved.digest[:12]} ({result.resolved.status})"),
        ("judged", f"{found.num_pictures} pictures, out of {found.num_folds} folds"),
        ("agreement", f"accuracy {found.accuracy:.1%}, macro F1 {found.macro_f1:.3f}"),
        ("sheet", f"{result.sheet.as_uri()}{kept}"),
    ]
    lines = [result.headline, *(f"  {name:<11}{text}" for name, text in rows)]
    return "\n".join([*lines, "Next:", *(f"  {line}" for line in _list_steps(result))])


def _list_steps(result: LabelErrors) -> list[str]:
    if result.suspects.boxed:
        return [
            "The labels come from boxes. Look at the first rows of the sheet, and correct the "
            "boxes in the file of the column 'source', at the 'place' beside it.",
        ]
    name = result.recipe.name
    command = "enginehouse" if shutil.which("enginehouse") else ".venv/bin/enginehouse"
    folder, root = result.resolved.folder, result.project.root / "data"
    if folder.is_relative_to(root) and folder != root:
        into = folder.relative_to(root).as_posix()
        give = f"{command} data add {shlex.quote(str(result.sheet))} --into {shlex.quote(into)}"
    else:
        give = f"cp {shlex.quote(str(result.sheet))} {shlex.quote(str(folder / result.sheet.name))}"
    return [
        "Look at the first rows of the sheet, and choose the right class in the column 'label'. "
        "Then:",
        give,
        f"{command} run --recipe {name}",
    ]
