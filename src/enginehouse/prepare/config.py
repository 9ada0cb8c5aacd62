"""What a recipe says of preparing: cleaning, tiles, size and splits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from enginehouse.artifact import Config
from enginehouse.choices import Choice, check_options, load_choice
from enginehouse.errors import RecipeError
from enginehouse.preparation import Cleaning, Preparation, Tiling


class CleanStep(Cleaning):
    """One cleaning step, checked against what it offers."""

    step: Annotated[str, Choice("cleaners")] = Field(description="Name of a cleaning step.")

    @model_validator(mode="after")
    def _check(self) -> CleanStep:
        check_options("cleaners", "cleaning step", self.step, self.options)
        return self

    def complete(self) -> Cleaning:
        """The same with every number, so that what serves does not hang on later defaults."""
        options = load_choice("cleaners", self.step).Options(**self.options)
        return Cleaning(step=self.step, options=options.model_dump())


class TileConfig(Tiling):
    """Windows over large pictures, so that small defects stay large enough to see."""

    min_visible: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Share of a box that a window must show to bear its label. A window that "
        "shows less, and no other box, is left out of training.",
    )
    keep_clean: float = Field(
        4,
        gt=0,
        le=1000,
        description="Most clean windows in training per window with a box, so that the few "
        "defects do not drown.",
    )


class PrepareConfig(Config):
    """How decoded pictures become what the network sees, and how they are split."""

    size: int = Field(
        128, ge=16, le=1024, multiple_of=8, description="Side of the square input in pixels."
    )
    clean: tuple[CleanStep, ...] = Field(
        (), max_length=8, description="Cleaning steps on the whole picture, in order."
    )
    tiles: TileConfig | None = Field(
        None, description="Windows that are cut from each picture; none: the whole picture."
    )
    split_by: Literal["given_or_part", "part", "time"] = Field(
        "given_or_part",
        description="given_or_part: splits as the data gives them, and those that it does not "
        "give are carved out of train by part. part: by part, whatever is given. time: the "
        "latest parts are for the test, those before them for validation.",
    )
    val_share: float = Field(0.15, gt=0, lt=0.5, description="Share of parts for validation.")
    test_share: float = Field(0.15, gt=0, lt=0.5, description="Share of parts for the test.")
    seed: int = Field(0, ge=0, description="Seed of the split.")
    folds: int = Field(
        0,
        ge=0,
        le=20,
        description="2 to 20: the test is one of so many folds, by part, whatever splits are "
        "given; each part is tested in exactly one. 0: no folds.",
    )
    fold: int = Field(0, ge=0, lt=20, description="With folds, the one that is tested.")

    @model_validator(mode="after")
    def _check_fold(self) -> PrepareConfig:
        if self.folds == 1:
            raise ValueError("folds is 1, which leaves nothing to learn from; set 0, or 2 to 20")
        if self.fold >= max(self.folds, 1):
            raise ValueError(
                f"fold ({self.fold}) must be smaller than folds ({self.folds}); the first is 0"
            )
        return self

    def check_problem(self, problem: str) -> None:
        """Check that pictures can be prepared so for a problem.

        Raises:
            RecipeError: tiles are wanted where a picture may bear several labels: the window that
                speaks for a picture would be silent on what others show.
        """
        if self.tiles and load_choice("problems", problem).SEVERAL_LABELS:
            raise RecipeError(
                f"prepare.tiles does not go with the problem {problem}: one window answers for "
                "its picture, and a picture may bear several labels.",
                "Leave prepare.tiles out, or set ingest.problem to single_label.",
            )

    def make_preparation(self, good: str) -> Preparation:
        """The part of this that travels with pack, model and engine.

        Args:
            good: with tiles, the class of a window in which nothing was found.
        """
        tiles = self.tiles and Tiling(size=self.tiles.size, overlap=self.tiles.overlap)
        clean = tuple(step.complete() for step in self.clean)
        return Preparation(size=self.size, clean=clean, tiles=tiles, good=good if tiles else "")
