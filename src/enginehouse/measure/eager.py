"""PyTorch eager fp32: what a user has before any engine, and what engines are compared with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from enginehouse.engine import Pictures, Probabilities
from enginehouse.train.network import build_network, normalise, to_probabilities
from enginehouse.train.record import TrainedModel


@contextlib.contextmanager
def open_eager(
    model: TrainedModel, weights: Path, place: str, threads: int
) -> Iterator[Callable[[Pictures], Probabilities]]:
    """The network from pixels to probabilities; torch's threads are given back.

    Args:
        model: architecture, classes and normalisation.
        weights: its state dict, safetensors.
        place: `cpu` or `cuda`.
        threads: CPU threads while it is open.

    Yields:
        A callable from uint8 [n, 3, size, size] to float32 [n, classes].
    """
    import torch
    from safetensors.torch import load_file

    network = build_network(model.model, len(model.classes))
    network.load_state_dict(load_file(weights))
    network.eval().to(place)

    def run(pictures: Pictures) -> Probabilities:
        with torch.inference_mode():
            inputs = normalise(torch.from_numpy(pictures).to(place), model.mean, model.std)
            answer: Probabilities = to_probabilities(network(inputs), model).cpu().numpy()
        return answer

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield run
    finally:
        torch.set_num_threads(before)
