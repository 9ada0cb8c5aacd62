"""Send work pools and the deployments of prefect.yaml to the Prefect server in use.

    python -m flows.deploy
"""

from __future__ import annotations

import os
import subprocess
import sys

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

    _create_pools()
    command = [*PYTHON, "prefect", "--no-prompt", "deploy", "--all"]
    done = subprocess.run(
        command, cwd=project.root, env=os.environ, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).strip().splitlines()[-LOG_LINES:]
        raise EnginehouseError(
            "Prefect did not take the deployments of prefect.yaml. It last said:"
            + "".join(f"\n    {line}" for line in lines),
            "Mend prefect.yaml; `enginehouse run --recipe NAME` checks a recipe faster.",
        )
    names = [each.full_name for each in read_deployments(project)]
    with get_client(sync_client=True) as client:
        return {name: str(client.read_deployment_by_name(name).id) for name in names}


def _create_pools() -> None:
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
