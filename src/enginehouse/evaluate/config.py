"""What a recipe says of scoring engines."""

from __future__ import annotations

import re

from pydantic import Field, model_validator

from enginehouse.artifact import Config
from enginehouse.evaluate.point import OperatingConfig
from enginehouse.preparation import Preparation


class MaskingConfig(Config):
    """Grey holes in the test pictures, for a second look at what the engine goes by."""

    holes: int = Field(8, ge=0, le=64, description="Holes per picture; 0: no second look.")
    side: float = Field(
        1 / 7,
        gt=0,
        le=0.5,
        description="Side of a hole as a share of the prepared picture's; 1/7 of 224 px is 32 px.",
    )


class EvaluateConfig(Config):
    """How engines are scored: on validation, where the operating point is fixed, then on test."""

    good_class: str = Field(
        "",
        description="Class that means a good part; escapes and overkill are counted by it. "
        "Empty: with tiles the class of a window without defects, else none.",
    )
    operating: OperatingConfig = Field(
        OperatingConfig(), description="What the operating point has to meet on validation."
    )
    masking: MaskingConfig = Field(
        MaskingConfig(), description="The test pictures once more, with grey holes."
    )
    slices: tuple[str, ...] = Field(
        (),
        max_length=8,
        description="Columns whose values are scored one by one: time, format, mode, handling, "
        "source, brightness, contrast, sharpness, picture_width, picture_height. Numbers and "
        "times are cut into quarters.",
    )
    slice_patterns: dict[str, str] = Field(
        {},
        description="Further slices, out of paths: name to a regular expression with one group, "
        "as camera: '(?:^|/)(cam[0-9]+)_'.",
    )

    def name_good(self, preparation: Preparation) -> str:
        """The class that means a good part, or ""."""
        return self.good_class or preparation.good

    @model_validator(mode="after")
    def _check_patterns(self) -> EvaluateConfig:
        for name, pattern in self.slice_patterns.items():
            try:
                groups = re.compile(pattern).groups
            except re.error as error:
                raise ValueError(f"slice_patterns: {name}: {pattern!r}: {error}") from error
            if groups != 1:
                raise ValueError(f"slice_patterns: {name} needs one group, got {groups}")
        if double := set(self.slices) & set(self.slice_patterns):
            raise ValueError(f"slices and slice_patterns both name {', '.join(sorted(double))}")
        return self
