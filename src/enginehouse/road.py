"""What one run of a recipe left behind: the records from data to scored engines."""

from __future__ import annotations

from dataclasses import dataclass, field

from enginehouse.build.record import Engine
from enginehouse.evaluate.record import Scorecard
from enginehouse.export.record import OnnxModel
from enginehouse.ingest.record import DataVersion, Manifest
from enginehouse.measure.record import Latency
from enginehouse.prepare.record import Pack
from enginehouse.quantize.record import QuantizedModel
from enginehouse.train.record import TrainedModel
from enginehouse.validate.record import Validated


@dataclass
class Road:
    """The records of one run, and what could not be made here.

    Attributes:
        onnx: by precision.
        engines, validations, scorecards: by target name, with the fp32 twins under their names;
            the scores are those on validation and on test.
        waiting: target name to why it cannot be built or run here.
    """

    data: DataVersion
    manifest: Manifest
    validated: Validated
    pack: Pack
    model: TrainedModel
    quantized: QuantizedModel | None = None
    onnx: dict[str, OnnxModel] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    validations: dict[str, Scorecard] = field(default_factory=dict)
    scorecards: dict[str, Scorecard] = field(default_factory=dict)
    latency: Latency | None = None
    waiting: dict[str, str] = field(default_factory=dict)
