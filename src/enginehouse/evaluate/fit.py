"""Whether an engine, a pack and the local device belong together."""

from __future__ import annotations

from enginehouse.build.record import Engine
from enginehouse.engine import Device, load_backend
from enginehouse.errors import EngineMismatch
from enginehouse.prepare.record import Pack


def check_fit(engine: Engine, pack: Pack, device: Device) -> None:
    """Refuse an engine of another problem, classes or preparation, and a device that is not here.

    Raises:
        EngineMismatch: says what is wanted and what is here.
        Unavailable: this machine cannot run the engine.
    """
    contract = engine.sidecar.contract
    if contract.problem != pack.problem:
        raise EngineMismatch(
            f"The engine solves a problem of the kind {contract.problem}; the pack is for "
            f"{pack.problem}.",
            "Use the pack that the engine's model was trained with.",
        )
    if contract.classes != pack.classes:
        raise EngineMismatch(
            f"The engine knows the classes {', '.join(contract.classes)}; the pack holds "
            f"{', '.join(pack.classes)}.",
            "Use the pack that the engine's model was trained with.",
        )
    if contract.preparation != pack.preparation:
        raise EngineMismatch(
            f"The engine takes pictures prepared with {contract.preparation}; those of the pack "
            f"were prepared with {pack.preparation}.",
            "Use the pack that the engine's model was trained with.",
        )
    local = load_backend(engine.sidecar.backend).describe_run_device(engine.target)
    if local.identity != device.identity:
        raise EngineMismatch(
            f"The engine was to run on {device.describe()}; here is {local.describe()}.",
            "Describe the device again, on the machine that runs the engine.",
        )
