"""What ingest takes and leaves behind."""

from __future__ import annotations

from typing import Annotated, ClassVar

from enginehouse.artifact import Record
from enginehouse.choices import Choice


class DataVersion(Record):
    """Which data. It has no bytes.

    Attributes:
        digest: the MD5 that DVC gives (or would give) the folder.
        empty_folders: folders without any file below them, of which DVC knows nothing.
        links: linked folders, which are not followed.
    """

    kind: ClassVar[str] = "data"

    digest: str
    empty_folders: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


class Manifest(Record):
    """One row per usable picture, its boxes, what was left out, and what was found.

    Files: `manifest.parquet`, `boxes.parquet`, `quarantine.parquet`, `findings.parquet`; their
    columns are described in docs/manifest.md.

    Attributes:
        format: the label format that was read.
        problem: what a label is to the network; of it, those who read this use SEVERAL_LABELS.
        classes: classes of whole pictures, in index order.
        labels: all labels that pictures or boxes bear or that were declared, in index order.
        label_ids: label to the id that the label file has for it, where it has one.
        good: the class of a picture without boxes, "" where labels are not boxes.
        image_class: by which rule boxes give a picture its class, "" where labels are not boxes.
        defect: by `any_box` the class of a picture with a box, else of a box without a label.
        num_rows, num_boxes, num_quarantined: rows of the tables.
        num_errors: findings of severity error; such data is never let through.
    """

    kind: ClassVar[str] = "manifest"
    schema_number: ClassVar[int] = 2

    format: str
    problem: Annotated[str, Choice("problems", fact="SEVERAL_LABELS")] = "single_label"
    classes: tuple[str, ...]
    labels: tuple[str, ...]
    label_ids: dict[str, int]
    good: str
    image_class: str = ""
    defect: str = ""
    num_rows: int
    num_boxes: int
    num_quarantined: int
    num_errors: int
