"""The one exception tree. Every error says what was wanted, what was found and what to do.

EnginehouseError
├── RecipeError          a recipe that cannot be run: unknown field, architecture, choice
├── DataError            pictures or labels that cannot be used
│   ├── UnreadablePicture    one file that is no usable picture, with the reason
│   └── ValidationFailed     a critical expectation failed
├── TrainingError        training that cannot give a usable model
│   └── NonFiniteLoss        the loss became NaN or infinite
├── Interrupted          a stage stopped because it was asked to; what it had is kept
├── QuantizationError    calibration or the quantized graph is not usable
├── ExportError          the ONNX graph is not what was promised
├── EngineError          an engine that cannot be built or run
│   ├── EngineMismatch       an engine made for another device, version or model
│   └── Unavailable          this machine lacks the device or library
├── StoreError           the store cannot be read or written
└── RegistryError        the model registry is away or holds something unusable
"""

from __future__ import annotations

from typing import Any


class EnginehouseError(Exception):
    """Base of all errors that a user can mend.

    Args:
        message: what was wanted and what was found, naming file, row, field or id.
        remedy: what to do about it; printed on a line of its own.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n  Fix: {self.remedy}" if self.remedy else self.message


class RecipeError(EnginehouseError):
    """A recipe that cannot be run."""


class DataError(EnginehouseError):
    """Pictures or labels that cannot be used."""


class UnreadablePicture(DataError):
    """One file that is no usable picture.

    Args:
        message: names the file and says what was found.
        reason: `empty file`, `not an image`, `truncated or corrupt`, `too large`, `unsupported
            format` or `unsupported pixels`: for counting.
    """

    def __init__(self, message: str, reason: str = "not an image") -> None:
        super().__init__(message)
        self.args = (message, reason)  # what pickle calls the class with
        self.reason = reason


class ValidationFailed(DataError):
    """A critical expectation over the data failed.

    Args:
        message: names what failed, and on which files.
        remedy: what to do.
        verdict: the record that holds the Data Docs.
    """

    def __init__(self, message: str, remedy: str = "", verdict: Any = None) -> None:
        super().__init__(message, remedy)
        self.verdict = verdict


class TrainingError(EnginehouseError):
    """Training that cannot give a usable model."""


class NonFiniteLoss(TrainingError):
    """The loss, or a gradient, became NaN or infinite."""


class Interrupted(EnginehouseError):
    """A stage stopped because it was asked to; a rerun goes on where it stopped.

    Attributes:
        signal: number of the signal that asked, as far as it is known; 2 is Ctrl-C.
    """

    signal = 2

    @classmethod
    def at(cls, epoch: int, steps: int, kept: bool = True) -> Interrupted:
        """In training, after so many steps; `kept`: they are in a checkpoint."""
        where = f"Training was stopped in epoch {epoch}, after {steps} steps"
        if kept:
            return cls(f"{where}; a checkpoint is kept.", "Run again: it goes on from there.")
        return cls(
            f"{where}; no checkpoint of them could be written.",
            "Run again: it goes on from the checkpoint before, if there is one.",
        )


class QuantizationError(EnginehouseError):
    """Calibration or the quantized graph is not usable."""


class ExportError(EnginehouseError):
    """The ONNX graph is not what was promised."""


class EngineError(EnginehouseError):
    """An engine that cannot be built or run."""


class EngineMismatch(EngineError):
    """An engine that was made for another device, library version or model."""


class Unavailable(EngineError):
    """This machine lacks the device or the library that is needed."""


class StoreError(EnginehouseError):
    """The store cannot be read or written."""


class RegistryError(EnginehouseError):
    """The model registry is away or holds something unusable."""


def first_line(error: BaseException) -> str:
    """What another library's exception says, without the rest of its story."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
