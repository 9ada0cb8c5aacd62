"""A model family of one small transformer: tokens and no maps; stands in for `models/`."""

from __future__ import annotations

import torch

LIBRARIES = ("torch",)
WIDTH = 16


class TinyTransformer(torch.nn.Module):
    """Patches of 8 px become tokens, one layer lets them look at each other, and their mean tells.

    Args:
        num_classes: logits.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.patches = torch.nn.Conv2d(3, WIDTH, 8, stride=8)
        self.encoder = torch.nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, batch_first=True)
        self.head = torch.nn.Linear(WIDTH, num_classes)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        tokens = self.patches(pictures).flatten(2).transpose(1, 2)
        logits: torch.Tensor = self.head(self.encoder(tokens).mean(dim=1))
        return logits


def build_model(name: str, num_classes: int) -> torch.nn.Module:
    return TinyTransformer(num_classes)
