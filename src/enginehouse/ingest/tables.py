"""The four tables of the manifest, written row by row; their columns are in docs/manifest.md."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from enginehouse.ingest.describe import Described

if TYPE_CHECKING:
    import pyarrow as pa

ROWS = 1000  # that wait in memory before they are written

BOXES = ("path", "label", "x", "y", "width", "height", "polygons", "source", "place")
QUARANTINE = ("path", "place", "reason", "detail")
FINDINGS = ("severity", "reason", "file", "place", "detail", "remedy")
MANIFEST = (
    *("path", "md5", "bytes", "format", "pixels", "phash", "width", "height", "mode", "handling"),
    *("label", "labels", "part", "time", "split", "source", "place"),
    *("brightness", "contrast", "sharpness"),
)
DESCRIBED = ("path", "md5", *Described._fields)


def make_schema(columns: Iterable[str], box: bool = False) -> pa.Schema:
    """The Arrow schema of some columns, each with its type; text where nothing else is said.

    Args:
        box: `width` and `height` are those of a box, not of a picture.
    """
    import pyarrow as pa

    number = pa.float64()
    types = {
        "bytes": pa.int64(),
        "width": number if box else pa.int32(),
        "height": number if box else pa.int32(),
        "orientation": pa.int32(),
        "labels": pa.list_(pa.string()),
        "polygons": pa.list_(pa.list_(number)),
        **dict.fromkeys(("x", "y", "brightness", "contrast", "sharpness"), number),
    }
    return pa.schema([(name, types.get(name, pa.string())) for name in columns])


class TableWriter:
    """Writes a Parquet file; only a few rows wait in memory. Use it with `with`.

    Args:
        path: of the file.
        columns: in order; a row is a tuple of their values.
        box: see `make_schema`.
    """

    def __init__(self, path: Path, columns: tuple[str, ...], box: bool = False) -> None:
        import pyarrow.parquet as pq

        self.num_rows = 0
        self._schema = make_schema(columns, box)
        self._rows: list[tuple[Any, ...]] = []
        self._writer = pq.ParquetWriter(path, self._schema)

    def add(self, row: tuple[Any, ...]) -> None:
        """Append one row."""
        self._rows.append(row)
        self.num_rows += 1
        if len(self._rows) == ROWS:
            self._flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa

        if not self._rows:
            return
        columns = zip(*self._rows, strict=True)
        arrays = [
            pa.array(values, field.type)
            for values, field in zip(columns, self._schema, strict=True)
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._rows.clear()


def write_table(path: Path, columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> int:
    """Write a table; returns the number of its rows."""
    with TableWriter(path, columns) as writer:
        for row in rows:
            writer.add(row)
    return writer.num_rows


def iter_rows(path: Path, columns: list[str]) -> Iterator[tuple[Any, ...]]:
    """Rows of a Parquet file, a few at a time in memory."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(ROWS, columns=columns, use_threads=False):
            yield from zip(*(batch[name].to_pylist() for name in columns), strict=True)
