"""What Prefect and MLflow add to a run: the whole flow against the same stages as plain calls.

Both sides walk the same road with the same cache on an empty store, in alternating rounds, on a
tiny recipe. The flow's side also judges, registers in MLflow, promotes and writes the report.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _common import figure, open_report, parse_args, print_table
from _tiny import draw_pictures, isolate, make_recipe

TARGET = 0.5  # seconds per stage


def main() -> None:
    """Measure and print."""
    args = parse_args(__doc__)
    with (
        tempfile.TemporaryDirectory() as scratch,
        open_report("overhead of orchestration", args, ("prefect", "mlflow")),
    ):
        measure(Path(scratch), rounds=1 if args.quick else 5)


def measure(scratch: Path, rounds: int) -> None:
    """Alternate the two sides; print the table and the figure."""
    isolate(scratch)
    pictures = draw_pictures(scratch / "pictures")
    from enginehouse.project import find_project
    from flows.environment import prepare_environment
    from flows.services import temporary_prefect_server

    project = find_project()
    prepare_environment(project)
    clock = time.perf_counter()
    with temporary_prefect_server(project) as server:
        server.wait()
        started = time.perf_counter() - clock
        clock = time.perf_counter()
        run_flow("warmup", pictures, scratch / "warmup")  # imports, MLflow's tables
        warm = time.perf_counter() - clock
        times: dict[str, list[float]] = {"plain": [], "flow": []}
        sides: dict[str, Callable[[str, Path, Path], int]] = {"plain": run_plain, "flow": run_flow}
        for number in range(rounds):
            for side, run in sides.items():
                clock = time.perf_counter()
                count = run(f"r{number}", pictures, scratch / f"{side}{number}")
                times[side].append(time.perf_counter() - clock)
    plain, flow = (statistics.median(times[side]) for side in ("plain", "flow"))
    rows = [[side, statistics.median(t), min(t), max(t)] for side, t in times.items()]
    print_table(("side", "median s", "min s", "max s"), rows)
    print(f"start-up apart: Prefect server {started:.1f} s; first flow with imports {warm:.1f} s")
    print(f"{count} stages, {rounds} round(s)")
    figure("overhead_s_per_stage", (flow - plain) / count, TARGET, better="lower")


def run_plain(name: str, pictures: Path, store: Path) -> int:
    """Walk the road as plain calls; returns the number of stages."""
    from enginehouse.project import find_project
    from flows.inspection import Inspection
    from flows.road import plainly, walk
    from flows.run import make_context
    from tasks._stage import PROGRESS
    from tasks.data import resolve_data

    os.environ["ENGINEHOUSE_STORE"] = str(store)
    project = find_project()
    recipe = make_recipe(name, pictures)
    resolved = resolve_data(project, recipe.data.path, PROGRESS.info)
    context = make_context(project.open_store(), recipe, resolved)
    inspection = Inspection(project, recipe.name, resolved, context.store)
    walk(recipe, resolved.version, plainly(context), inspection)
    return len(context.outcomes)


def run_flow(name: str, pictures: Path, store: Path) -> int:
    """Run the flow `retrain`; returns the number of stages."""
    from flows.retrain import retrain

    os.environ["ENGINEHOUSE_STORE"] = str(store)
    result = retrain(make_recipe(name, pictures))
    return len(result.run.context.outcomes)


if __name__ == "__main__":
    main()
