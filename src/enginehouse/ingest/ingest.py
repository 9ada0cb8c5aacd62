"""Ingest: whatever arrives becomes one manifest; what cannot be used is said by name.

The way of every picture: its labels are read by a format, it is selected, decoded and described,
its boxes are settled, and it becomes a row. Where a person corrected its label, that counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from enginehouse.artifact import Config, Source, Workspace
from enginehouse.choices import Choice, load_choice
from enginehouse.files import Files
from enginehouse.ingest.account import Account
from enginehouse.ingest.choose import Chosen, choose_reading
from enginehouse.ingest.classes import ImageClass, find_undeclared, make_rule
from enginehouse.ingest.conflicts import find_conflicts
from enginehouse.ingest.corrections import correct_labels, find_corrections, leave_out
from enginehouse.ingest.decode import decode_pictures
from enginehouse.ingest.patterns import PathPattern, check_pattern
from enginehouse.ingest.record import DataVersion, Manifest
from enginehouse.ingest.rows import write_rows
from enginehouse.ingest.selection import Selection, select_pictures
from enginehouse.ingest.several import settle_several
from enginehouse.ingest.surroundings import (
    list_junk,
    look_around,
    show_name,
    take_out_odd_names,
)
from enginehouse.labels import LabelOptions, LeftOut, SeveralLabels

LIBRARIES = (
    *("imagehash", "loky", "numpy", "opencv-python-headless", "openpyxl", "pillow", "pyarrow"),
)
TABLES = ("manifest.parquet", "boxes.parquet", "quarantine.parquet", "findings.parquet")


class IngestConfig(Config):
    """How labels, classes, parts and times are read."""

    problem: Annotated[str, Choice("problems", fact="SEVERAL_LABELS")] = Field(
        "single_label",
        description="What a label is to the network. single_label: a picture is of one class; "
        "multi_label: it bears any number of labels.",
    )
    format: Annotated[str, Choice("formats", every="auto")] = Field(
        "auto", description="Label format of the data set; auto: recognised by content."
    )
    label_file: str = Field(
        "",
        max_length=1000,
        description="The one label file to read, as a path from the data folder; empty: all.",
    )
    labels: LabelOptions = Field(LabelOptions(), description="How label files are read.")
    image_class: ImageClass = Field(
        "any_box",
        description="Class of a picture of which only boxes are labelled: defect_label if it has "
        "any; the commonest label; or all its labels joined with +. Without boxes: good_label. "
        "Where a picture may bear several labels, it bears those of its boxes instead.",
    )
    good_label: str = Field(
        "normal", min_length=1, max_length=200, description="Class of a picture without boxes."
    )
    defect_label: str = Field(
        "defect", min_length=1, max_length=200, description="Class of a picture with any box."
    )
    unlisted: Literal["auto", "good", "left out"] = Field(
        "auto",
        description="What a picture is that the labels do not mention; auto: as the format says.",
    )
    group_pattern: str = Field(
        "",
        max_length=200,
        description="Regular expression, searched for in the path from the data folder; its groups "
        "make the part id. Pictures of one part stay in one split. Empty: every picture is its "
        "own part.",
    )
    time_pattern: str = Field(
        "",
        max_length=200,
        description="Likewise; its groups make a time that can be sorted.",
    )

    @field_validator("group_pattern")
    @classmethod
    def _check_group(cls, text: str) -> str:
        return check_pattern("group_pattern", text)

    @field_validator("time_pattern")
    @classmethod
    def _check_time(cls, text: str) -> str:
        return check_pattern("time_pattern", text)


def ingest(data: DataVersion, config: IngestConfig, here: Workspace) -> Manifest:
    """Read, check and describe every file of a data version.

    Whatever is wrong with the data ends in the tables; see docs/manifest.md.

    Raises:
        DataError: a file changed since the version was taken.
    """
    files, account = _list_files(here.source(data.digest), data, config.label_file)
    sheets = find_corrections(files)
    labelled = leave_out(files, sheets)
    options = _tell_formats(config)
    chosen = choose_reading(labelled, config.format, config.label_file, options)
    selection = _select(files, chosen, config)
    account.left_out += [*list_junk(files), *chosen.reading.left_out, *selection.left_out]
    account.findings += chosen.reading.findings
    account.findings += find_undeclared(chosen.reading, options)
    read = {*chosen.label_files, *chosen.compared, *sheets}
    read |= {finding.file for finding in account.findings}
    account.findings += look_around(files, read)
    described = here.scratch / "described.parquet"
    decode_pictures(files, selection, account, described, here)
    selection, conflicts = _settle(described, selection)
    if sheets:
        corrected = correct_labels(files, sheets, selection)
        corrected.apply(chosen.reading, described)
        account.findings += corrected.findings
        account.left_out += corrected.left_out
        selection, conflicts = _settle(described, _select(files, chosen, config))
    account.left_out += conflicts
    patterns = [
        PathPattern("ingest.group_pattern", config.group_pattern, "each is a part of its own"),
        PathPattern("ingest.time_pattern", config.time_pattern, "they have no time"),
    ]
    unsure = {item.file for item in conflicts}
    num_rows, num_boxes = write_rows(described, selection, unsure, patterns, account, here.scratch)
    account.write(here.scratch)
    rule = selection.rule
    return Manifest(
        files=here.seal(TABLES),
        format=chosen.format,
        problem=config.problem,
        classes=selection.list_classes(),
        labels=rule.vocabulary,
        label_ids=chosen.reading.class_ids,
        good=rule.good if rule.boxed else "",
        image_class=rule.image_class if rule.boxed else "",
        defect=rule.defect if rule.boxed else "",
        num_rows=num_rows,
        num_boxes=num_boxes,
        num_quarantined=len(account.left_out),
        num_errors=account.num_errors,
    )


def _list_files(source: Source, data: DataVersion, label_file: str) -> tuple[Files, Account]:
    listing, odd = take_out_odd_names(source.listing)
    files = Files(
        source.folder,
        listing,
        tuple(map(show_name, data.empty_folders)),
        tuple(map(show_name, data.links)),
        label_file if label_file in listing else "",
    )
    return files, Account(odd)


def _settle(described: Path, selection: Selection) -> tuple[Selection, list[LeftOut]]:
    """The selection as the copies among its pictures make it, and those that contradict it."""
    if selection.several:
        return settle_several(described, selection)
    return selection, find_conflicts(described, selection.say)


def _bears_several(config: IngestConfig) -> bool:
    several: bool = load_choice("problems", config.problem).SEVERAL_LABELS
    return several


def _tell_formats(config: IngestConfig) -> LabelOptions:
    if not _bears_several(config):
        return config.labels
    return SeveralLabels(**dict(config.labels), good=config.good_label)


def _select(files: Files, chosen: Chosen, config: IngestConfig) -> Selection:
    reading, several = chosen.reading, _bears_several(config)
    rule = make_rule(
        reading,
        config.labels.classes,
        "per_label" if several else config.image_class,
        config.good_label,
        config.defect_label,
    )
    unlisted = reading.unlisted if config.unlisted == "auto" else config.unlisted
    return select_pictures(files, reading, rule, unlisted, chosen.label_files, several)
