"""`enginehouse data add`: new files become part of a data set, and the whole a new data version.

Nothing is copied before everything was checked; then whole files are renamed into place, so a
killed command leaves nothing, or files that the same command finds in place and goes on from.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from enginehouse.correction_sheet import is_corrections
from enginehouse.errors import DataError
from enginehouse.files import is_junk
from enginehouse.merge import Merge, plan_merge
from enginehouse.project import Project
from flows.data_merge import (
    insist_free,
    link_whole,
    move_in,
    place_new_files,
    refuse_other_changes,
    relative,
    stage_files,
)
from flows.recipes import list_recipes, load_recipe
from tasks.data import ResolvedData, add_version, open_version, push_version, resolve_source

Say = Callable[[str], object]


@dataclass(frozen=True)
class Judgement:
    """What a check says of a folder.

    Attributes:
        errors: why it is rejected, a sentence each; empty if it is not.
        left_out: files that would not be used, by relative path, to the reason.
    """

    errors: list[str]
    left_out: dict[str, str]


Check = Callable[[Path, str], Judgement]  # of a folder, with the recipe of that name or ""


@dataclass(frozen=True)
class Added:
    """What became of the new files.

    Attributes:
        target: the folder of the data set.
        before: digest of the version that was; "" if there was none.
        after: digest of the version now.
        file: the .dvc file.
        unused: new files that the check leaves out, to the reason; they were added all the same.
        unpushed: why the version is on this machine only, or "".
    """

    target: Path
    merge: Merge
    unused: dict[str, str]
    before: str
    after: str
    file: Path
    unpushed: str


def add_data(
    project: Project,
    folder: Path,
    into: str,
    recipe: str,
    check: Check,
    report: Say,
    *,
    replace: bool = False,
) -> Added:
    """Check new files, merge them into a data set, check the whole, make a version and push it.

    Args:
        folder: the new files.
        into: the data set's folder below the project's `data/`; "" takes the new folder's name.
        recipe: name of the recipe to check with; "": those whose data the files become part of.
        replace: whether files of other content are replaced.

    Raises:
        DataError: the new files or the whole are rejected, files are in the way, the data set
            was changed without `dvc add`, the disk is full, or DVC failed.
    """
    target = place_new_files(project, folder, into)
    checks = _list_checks(project, target, recipe)
    source = resolve_source(project, folder, report)
    alike = next((name for root, name in checks if root == target), recipe)  # its labels, its rules
    # Corrections alone speak of pictures that are there already: only the whole can be judged.
    judged = Judgement([], {}) if _is_corrections(source) else check(folder, alike)
    _insist(judged.errors, str(folder))

    def say_waiting() -> None:
        report("data: waiting for another data add")

    with project.open_store().lock("data-add", say_waiting):
        version = open_version(project, target, report)
        prefix = "" if version.out == target else f"{relative(target, version.out)}/"
        refuse_other_changes(version, prefix, source.listing)
        old = {p[len(prefix) :]: md5 for p, md5 in version.listing.items() if p.startswith(prefix)}
        merge = plan_merge(source.listing, old, replace=replace)
        insist_free(merge, target)
        incoming = (*merge.added, *merge.replaced)
        file, after = version.file, version.digest
        if incoming or version.changed or not version.digest:
            with stage_files(project, source, incoming) as stage:
                places = {target / path: stage / path for path in incoming}
                _check_whole(project, checks, places, check, {target / p for p in judged.left_out})
                move_in(places)
            file, after = add_version(project, version.out, report)
        unpushed = push_version(project, file, report)
    return Added(target, merge, judged.left_out, version.digest, after, file, unpushed)


def render_added(project: Project, added: Added) -> str:
    """What was done, and what to type to keep it in git."""
    merge = added.merge
    counts = [f"{len(merge.added)} files added"]
    counts += [f"{len(merge.replaced)} replaced"] if merge.replaced else []
    counts += [f"{len(merge.same)} there already"] if merge.same else []
    counts += [f"{len(merge.junk)} junk files left out"] if merge.junk else []
    lines = [f"{relative(added.target, project.root)}: {', '.join(counts)}"]
    if merge.repeats:
        named = [f"{path} is {old}" for path, old in merge.repeats.items()]
        lines.append(f"{len(named)} repeats left out: {_name(named)}")
    if added.unused:
        named = [f"{path} ({why})" for path, why in added.unused.items()]
        lines.append(f"{len(named)} added, but no run will use them: {_name(named)}")
    name = relative(added.file, project.root)
    was = added.before[:12] or "none"
    lines.append(f"data version {was} -> {added.after[:12]} ({name})")
    lines.append(f"on this machine only: {added.unpushed}" if added.unpushed else "pushed")
    if added.before != added.after:
        new = [] if added.before else [added.file.with_name(".gitignore")]  # dvc add wrote into it
        files = shlex.join(relative(path, project.root) for path in (added.file, *new))
        message = shlex.quote(f"Add {added.target.name} to the data")
        lines.append(f"to keep it: git add {files} && git commit -m {message}")
    return "\n".join(lines)


def make_check(project: Project) -> Check:
    """`enginehouse check`, where too few pictures or classes are no reason to refuse."""

    def run_check(folder: Path, name: str) -> Judgement:
        from enginehouse.ingest.ingest import IngestConfig
        from enginehouse.validate.validate import ValidateConfig
        from flows.check import check

        ingest, validation = IngestConfig(format="auto"), ValidateConfig()
        if name:
            recipe = load_recipe(project, name)
            ingest, validation = recipe.ingest, recipe.validation
        validation = validation.model_copy(update={"allow_fragment": True})
        verdict = check(project, folder, ingest, validation)
        return Judgement(
            [
                f"{error['file']} {error['place']}: {error['detail']}".strip(" :")
                for error in verdict["errors"]
            ],
            {e["file"]: e["reason"] for e in verdict["quarantine"] if not e["place"]},
        )

    return run_check


def _is_corrections(source: ResolvedData) -> bool:
    """Whether new files are sheets of corrections, and nothing else that counts.

    Raises:
        DataError: there are other files beside them.
    """
    files = [path for path in source.listing if not is_junk(path)]
    sheets = [path for path in files if is_corrections(path)]
    if sheets and len(sheets) < len(files):
        raise DataError(
            f"Nothing was added: beside {sheets[0]} there are other files; corrections speak of "
            "pictures that are in the data already.",
            "Add the other files first, then the corrections by themselves.",
        )
    return bool(sheets)


def _name(named: list[str]) -> str:
    more = f", and {len(named) - 5} more" if len(named) > 5 else ""
    return f"{', '.join(named[:5])}{more}"


def _insist(errors: list[str], what: str) -> None:
    if errors:
        named = "".join(f"\n  - {error}" for error in errors[:10])
        more = f"\n  and {len(errors) - 10} more" if len(errors) > 10 else ""
        raise DataError(
            f"Nothing was added: {what} is rejected:{named}{more}",
            "Mend the new files and run again; enginehouse check FOLDER says all about a folder.",
        )


def _check_whole(
    project: Project,
    checks: list[tuple[Path, str]],
    places: Mapping[Path, Path],
    check: Check,
    unused: set[Path],
) -> None:
    """Check the data set as it will be: a folder of links to what is there and what is new.

    A new file that is used alone but not in the whole contradicts what is there.

    Args:
        unused: places of new files that are left out in any case.
    """
    for root, name in checks:
        view = link_whole(project, root, places)
        if view is not None:
            judged = check(view, name)
            clashes = [
                f"{path}: {why} with what is there"
                for path, why in judged.left_out.items()
                if root / path in places.keys() - unused
            ]
            what = f"{relative(root, project.root)} with the new files in it"
            _insist([*judged.errors, *clashes], what)


def _list_checks(project: Project, target: Path, recipe: str) -> list[tuple[Path, str]]:
    """The folders to check, with the names of recipes: those that train on what is added."""
    checks = []
    for name in [recipe] if recipe else list_recipes(project):
        path = Path(load_recipe(project, name).data.path).expanduser()
        root = Path(os.path.normpath(project.root / path))
        if root.is_relative_to(target) or target.is_relative_to(root):
            checks.append((root, name))
    return checks or [(target, recipe)]
