"""What every benchmark shares: arguments, header, table, the closing `figure` lines.

Knows nothing of what is measured. A script reads

    args = parse_args(__doc__)
    with open_report("engine speed", args, ("torch", "openvino")):
        ...
        print_table(("model", "ratio"), rows)
        figure("engine_int8_vs_fp32", 1.7, 1.5)
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import io
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TextIO

from enginehouse.processor import count_cores, describe_cpu


class _Tee(io.TextIOBase):
    """Writes to the terminal at once and keeps the same text."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.kept: list[str] = []

    def write(self, text: str) -> int:
        self.kept.append(text)
        return self.stream.write(text)

    def flush(self) -> None:
        self.stream.flush()


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """The arguments that every benchmark takes; add a script's own to the result."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a look in under 50 s, not a verdict")
    parser.add_argument("--out", type=Path, help="also keep the printed result in this file")
    return parser


def parse_args(doc: str | None) -> argparse.Namespace:
    """Parse the common arguments: `quick` (bool) and `out` (path or None)."""
    return make_parser(doc).parse_args()


@contextlib.contextmanager
def open_report(
    title: str, args: argparse.Namespace, libraries: Sequence[str] = ()
) -> Iterator[None]:
    """Print the header, then let the script print; keep it all in `args.out` when it is given.

    A script that fails leaves no file.
    """
    tee = _Tee(sys.stdout)
    with contextlib.redirect_stdout(tee):
        print_header(title, args.quick, libraries)
        yield
    if args.out is not None:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text("".join(tee.kept), encoding="utf-8")


def print_header(title: str, quick: bool, libraries: Sequence[str]) -> None:
    """Title, date, processor and versions: what a kept result needs to be understood later."""
    kind = "quick run, judge on a full one" if quick else "full run"
    now = datetime.datetime.now(datetime.UTC)
    print(f"# {title} ({kind})")
    print(f"date       {now:%Y-%m-%d %H:%M} UTC")
    print(f"processor  {describe_cpu()}, {count_cores()} cores")
    versions = [f"{name} {importlib.metadata.version(name)}" for name in libraries]
    print("versions   " + ", ".join([f"python {platform.python_version()}", *versions]))
    print(flush=True)


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Aligned columns: the first to the left, the others to the right; floats with two digits."""
    cells = [[str(name) for name in header]] + [[_show(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for number, row in enumerate(cells):
        first, *rest = (
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *rest]).rstrip())
        if number == 0:
            print("  ".join("-" * width for width in widths))
    print(flush=True)


def figure(
    name: str, value: float, target: float, better: Literal["higher", "lower"] = "higher"
) -> bool:
    """Print `figure NAME VALUE TARGET holds|short`, one line of the script's end.

    Args:
        name: one word.
        value: what was measured; the worst case where there are several.
        target: the least value wanted, or the largest when `better` is `lower`.

    Returns:
        Whether the target was met, by the value as it is, not as it is printed.
    """
    assert name and not any(c.isspace() for c in name), name
    holds = value >= target if better == "higher" else value <= target
    print(f"figure {name} {value:.4g} {target:g} {'holds' if holds else 'short'}", flush=True)
    return holds


def _show(cell: object) -> str:
    return f"{cell:.2f}" if isinstance(cell, float) else str(cell)
