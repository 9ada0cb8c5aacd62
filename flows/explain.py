"""Why each stage of a recipe's last run ran or was cached."""

from __future__ import annotations

from enginehouse.errors import EnginehouseError
from enginehouse.project import Project


def explain(project: Project, recipe: str) -> str:
    """One line per stage of the last run, also of one that failed.

    Raises:
        EnginehouseError: the recipe was never run here.
    """
    stages = project.open_store().recall(f"runs/{recipe}")
    if not stages:
        raise EnginehouseError(
            f"Recipe {recipe} was never run with this store.",
            f"Run it first: enginehouse run --recipe {recipe}",
        )
    width = max(len(stage["place"]) for stage in stages)
    lines = [f"Last run of {recipe}:"]
    for stage in stages:
        verb = "cached" if stage["cached"] else f"ran {stage['seconds']:.1f} s"
        lines.append(f"  {stage['place']:<{width}}  {verb:<11} {stage['reason']}")
    ran = sum(not stage["cached"] for stage in stages)
    lines.append(f"{ran} ran, {len(stages) - ran} cached.")
    return "\n".join(lines)
