"""A model family of networks that break while they are trained; stands in for `models/`."""

from __future__ import annotations

import torch

from enginehouse.choices import load_choice

LIBRARIES = ("torch",)


class Breaking(torch.nn.Module):
    """The tiny CNN, whose logits are NaN in some calls.

    Args:
        training: calls in training mode that are answered before NaN comes.
        scoring: calls in evaluation mode on validation that give NaN first.
    """

    def __init__(self, num_classes: int, training: int, scoring: int) -> None:
        super().__init__()
        self.net = load_choice("models", "tiny").build_model("tiny_cnn", num_classes)
        self.training_left, self.scoring_left = training, scoring
        self.is_trained = False

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.net(pictures)
        if self.training:
            self.is_trained = True  # from now on evaluation is validation, not the preflight
            self.training_left -= 1
            return logits if self.training_left >= 0 else logits * torch.nan
        if self.is_trained and self.scoring_left > 0:
            self.scoring_left -= 1
            return logits * torch.nan
        return logits


class Hungry(torch.nn.Module):
    """A CNN with dropout that takes so many pictures at once, as memory would.

    Where it fails it has drawn random numbers and changed the statistics of its norms already,
    as a real network would have.

    Args:
        most: pictures at once.
        norm: whether it has a BatchNorm.
        dropout: share that is dropped.
    """

    def __init__(self, num_classes: int, most: int, norm: bool, dropout: float) -> None:
        super().__init__()
        self.most = most
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 5, stride=2),
            torch.nn.BatchNorm2d(16) if norm else torch.nn.Identity(),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(4),
            torch.nn.Flatten(),
            torch.nn.Dropout(dropout),
        )
        self.head = torch.nn.Linear(256, num_classes)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        features = self.features(pictures)
        if len(pictures) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        logits: torch.Tensor = self.head(features)
        return logits


class Flat(torch.nn.Module):
    """Learns like the tiny CNN, but says the same of every validation picture, ever again."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.net = load_choice("models", "tiny").build_model("tiny_cnn", num_classes)
        self.is_trained = False

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.net(pictures)
        self.is_trained |= self.training
        return logits if self.training or not self.is_trained else logits * 0


def build_model(name: str, num_classes: int) -> torch.nn.Module:
    """`<training>-<scoring>`, as in `Breaking`; `hungry-<most>`, `hungry_norm-<most>`; `flat`."""
    kind, _, number = name.partition("-")
    if kind == "hungry":
        return Hungry(num_classes, int(number), norm=False, dropout=0.0)
    if kind == "hungry_norm":
        return Hungry(num_classes, int(number), norm=True, dropout=0.3)
    if kind == "flat":
        return Flat(num_classes)
    return Breaking(num_classes, int(kind), int(number))
