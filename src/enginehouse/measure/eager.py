"""PyTorch eager fp32: what a user has before any engine, and what engines are compared with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from enginehouse.choices import load_choice
from enginehouse.engine import Pictures, Probabilities
from enginehouse.train.record import TrainedModel


@contextlib.contextmanager
def open_eager(
    model: TrainedModel, weights: Path, place: str, threads: int
) -> Iterator[Callable[[Pictures], Probabilities]]:
    """The network with the engines' preprocessing and softmax; torch's threads are given back.

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

    network = load_choice("models", model.model.family).build_model(
        model.model.name, len(model.classes)
    )
    network.load_state_dict(load_file(weights))
    network.eval().to(place)
    mean = torch.tensor(model.mean, device=place).view(1, 3, 1, 1)
    std = torch.tensor(model.std, device=place).view(1, 3, 1, 1)

    def run(pictures: Pictures) -> Probabilities:
        with torch.inference_mode():
            inputs = (torch.from_numpy(pictures).to(place) / 255 - mean) / std
            answer: Probabilities = torch.softmax(network(inputs), dim=1).cpu().numpy()
        return answer

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield run
    finally:
        torch.set_num_threads(before)
