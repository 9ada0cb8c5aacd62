"""Send work pools and the deployments of prefect.yaml to the Prefect server in use.

python -m flows.deploy
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from enginehouse.errors import EnginehouseError
from enginehouse.project import Project, find_project
from flows.environment import prepare_environment
from flows.recipes import read_deployments
from flows.services import LOG_LINES, PYTHON

POOLS: dict[str, int | None] = {"cpu": None, "gpu": 1}  # flow runs at once; one GPU runs one


def deploy(project: Project) -> dict[str, str]:
    """Create missing work pools, then create or update all deployments.

    Returns:
        `<flow>/<deployment>` to its id on the server.

    Raises:
        EnginehouseError: Prefect refuses; its last lines are in the message.
    """
    from prefect.client.orchestration import get_client

    create_pools()
    command = [*PYTHON, "prefect", "--no-prompt", "deploy", "--all"]
    done = subprocess.run(
        command, cwd=project.root, env=os.environ, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        lines = [line[:500] for line in (done.stdout + done.stderr).split("\n")[-LOG_LINES:]]
        raise EnginehouseError(
            "Prefect did not take the deployments of prefect.yaml. It last said:"
            + "".join(f"\n    {line}" for line in lines if line),
            "Mend prefect.yaml; `enginehouse run --recipe NAME` checks a recipe faster.",
        )
    names = [each.full_name for each in read_deployments(project)]
    with get_client(sync_client=True) as client:
        return {name: str(client.read_deployment_by_name(name).id) for name in names}


def create_pools() -> None:
    """Create the work pools that are missing."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectAlreadyExists
    from prefect.workers.process import ProcessWorker

    with get_client(sync_client=True) as client:
        for name, limit in POOLS.items():
            pool = WorkPoolCreate(
                name=name,
                type=ProcessWorker.type,
                base_job_template=ProcessWorker.get_default_base_job_template(),
                concurrency_limit=limit,
            )
            try:
                client.create_work_pool(pool)
            except ObjectAlreadyExists:  # people may have changed it: leave it be
                continue


def end_orphans() -> None:
    """Mark runs whose worker was killed as crashed; only while no worker can be alive."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, WorkPoolFilter
    from prefect.client.schemas.objects import State, StateType
    from prefect.states import Crashed

    alive = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]
    with get_client(sync_client=True) as client:
        orphans = client.read_flow_runs(
            flow_run_filter=FlowRunFilter.model_validate({"state": {"type": {"any_": alive}}}),
            work_pool_filter=WorkPoolFilter.model_validate({"name": {"any_": list(POOLS)}}),
        )
        for run in orphans:
            state: State[Any] = Crashed(
                message="Its worker was killed. Start it again: finished stages are kept."
            )
            client.set_flow_run_state(run.id, state, force=True)


def main() -> int:
    """Deploy to a server that runs; returns the exit code."""
    try:
        project = find_project()
        services = prepare_environment(project)
        if not services.prefect.url:
            raise EnginehouseError(
                "There is no Prefect server to deploy to.",
                "Run `make up`, which deploys by itself, or set PREFECT_API_URL to your server.",
            )
        print(f"Prefect: {services.prefect.url} ({services.prefect.origin})")
        for name in deploy(project):
            print(f"  deployed {name}")
    except EnginehouseError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
