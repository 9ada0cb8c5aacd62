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


def build_model(name: str, num_classes: int) -> torch.nn.Module:
    """`<training>-<scoring>`, as in `Breaking`."""
    training, scoring = name.split("-")
    return Breaking(num_classes, int(training), int(scoring))
