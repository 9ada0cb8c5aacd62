"""How long a run takes when nothing changed: the whole command, median of three.

Takes the recipe `sample` as it stands (and runs it once before, if it has to).
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time

from _common import figure, open_report, parse_args, print_table

TARGET = 12.0  # seconds
ROUNDS = 3
COMMAND = ["-m", "flows.cli", "run", "--recipe", "sample"]


def main() -> None:
    """Measure and print."""
    args = parse_args(__doc__)
    with open_report("cached rerun", args, ("prefect", "mlflow")):
        run()
        walls = []
        for _ in range(ROUNDS):
            clock = time.perf_counter()
            done = run()
            walls.append(time.perf_counter() - clock)
            if "nothing changed" not in done.stdout:
                sys.exit(f"the rerun was not cached:\n{done.stdout}{done.stderr}")
        wall = statistics.median(walls)
        imports = measure_imports()
        rows = [
            ["whole command", wall, 1.0],
            ["imports", imports, imports / wall],
            ["server start (none is started)", 0.0, 0.0],
        ]
        print_table(("part", "seconds", "share"), rows)
        print(f"walls: {', '.join(f'{w:.2f}' for w in walls)} s")
        figure("cached_rerun_s", wall, TARGET, better="lower")


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end.

    Raises:
        SystemExit: it failed.
    """
    done = subprocess.run(
        [sys.executable, *flags, *COMMAND], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done


def measure_imports() -> float:
    """Seconds that the interpreter itself counts for all imports (`-X importtime`)."""
    lines = re.findall(r"import time:\s+(\d+) \|", run("-X", "importtime").stderr)
    return sum(map(int, lines)) / 1e6


if __name__ == "__main__":
    main()
