"""Quality of the INT8 engine on X-SDD, hot-rolled steel strip in seven classes, from scratch.

The recipe `steel` goes the whole way in a state folder of its own: flow, registry, engine. The
pictures (Apache-2.0, Feng et al. 2021) are not part of the repository: name their folder.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from _common import figure, make_parser, open_report, print_table
from _tiny import isolate
from _xsdd import PICTURES

TARGET = 0.90  # macro F1 on the test split


def main() -> None:
    """Measure and print."""
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, default=PICTURES, help="folder of class folders")
    args = parser.parse_args()
    if not args.data.is_dir():
        sys.exit(f"skipped: there is no folder {args.data}; name one with --data")
    with (
        tempfile.TemporaryDirectory() as scratch,
        open_report("X-SDD, INT8 engine", args, ("torch", "openvino")),
    ):
        isolate(Path(scratch))
        measure(args.data.resolve(), args.quick)


def measure(data: Path, quick: bool) -> None:
    """Run the flow and print what it came to."""
    from enginehouse.project import find_project
    from enginehouse.recipe import Recipe
    from flows.environment import prepare_environment
    from flows.recipes import load_recipe
    from flows.services import temporary_prefect_server

    project = find_project()
    prepare_environment(project)
    recipe = load_recipe(project, "steel")
    if quick:
        words = recipe.model_dump(mode="json")
        words["prepare"]["size"] = 48
        words["train"] |= {"epochs": 1}
        recipe = Recipe.model_validate(words)
    clock = time.perf_counter()
    with temporary_prefect_server(project) as server:
        server.wait()
        from flows.retrain import retrain

        road = retrain(recipe, str(data)).run.road
    wall = time.perf_counter() - clock
    engine = road.scorecards["openvino"]
    twin = road.scorecards[recipe.reference.name]
    rows = [[name, engine.recalls[name], twin.recalls[name]] for name in engine.classes]
    rows.append(["macro F1", engine.macro_f1, twin.macro_f1])
    print_table(("recall", "INT8", "fp32"), rows)
    repeats = road.pack.notes["dropped_duplicates"]
    print(f"{road.pack.counts}, {len(repeats)} repeated pictures dropped; wall {wall:.0f} s")
    figure("xsdd_int8_macro_f1", engine.macro_f1, TARGET)


if __name__ == "__main__":
    main()
