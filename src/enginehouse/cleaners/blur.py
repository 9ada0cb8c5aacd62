"""Blur: specks go by a median, grain and moiré by a Gaussian."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from enginehouse.artifact import Config
from enginehouse.preparation import Cleaned

LIBRARIES = ("numpy", "opencv-python-headless")


class Options(Config):
    """The two filters; the median comes first."""

    median: int = Field(1, ge=1, le=25, description="Side of the median's window; 1: no median.")
    sigma: float = Field(
        1.0, ge=0, le=25, description="Standard deviation of the Gaussian in pixels; 0: none."
    )

    @model_validator(mode="after")
    def _check(self) -> Options:
        if self.median % 2 == 0:
            raise ValueError(f"median must be odd, got {self.median}")
        if self.median == 1 and self.sigma == 0:
            raise ValueError("median 1 and sigma 0 leave nothing to do; leave the step out")
        return self


def clean(array: NDArray[np.uint8], options: Options) -> Cleaned:
    """Median, then Gaussian; the edge is repeated."""
    import cv2

    if options.median > 1:
        array = np.asarray(cv2.medianBlur(array, options.median), np.uint8)
    if options.sigma > 0:
        blurred = cv2.GaussianBlur(array, (0, 0), options.sigma, borderType=cv2.BORDER_REPLICATE)
        array = np.asarray(blurred, np.uint8)
    return Cleaned(array)
