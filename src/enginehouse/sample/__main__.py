"""`python -m enginehouse.sample FOLDER`: make the sample data set."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from enginehouse.errors import EnginehouseError
from enginehouse.sample.make import make_sample


def main() -> int:
    """Read the command line, make the sample, say what was made."""
    parser = argparse.ArgumentParser(prog="python -m enginehouse.sample", description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write; must not hold images yet")
    parser.add_argument("--seed", type=int, default=7, help="same seed, same bytes (default: 7)")
    parser.add_argument(
        "--pictures", type=int, default=1000, help="about how many pictures (default: 1000)"
    )
    asked = parser.parse_args()
    try:
        made = make_sample(asked.folder, asked.seed, num_parts=asked.pictures // 2)
    except EnginehouseError as error:
        print(error, file=sys.stderr)
        return 2
    counts = ", ".join(f"{label} {count}" for label, count in made["classes"].items())
    print(f"{made['pictures']} pictures ({counts}), {made['bytes'] / 2**20:.1f} MiB")
    for fault, name in made["faults"].items():
        print(f"planted fault: {fault}: images/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
