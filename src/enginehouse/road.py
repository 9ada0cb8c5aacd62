"""What one run of a recipe left behind: the records from data to scored engines."""

from __future__ import annotations

from dataclasses import dataclass, field

from enginehouse.build.record import Engine
from enginehouse.choose.record import Decision
from enginehouse.compare.record import Parity
from enginehouse.engine import Precision
from enginehouse.evaluate.record import Scorecard
from enginehouse.export.record import OnnxModel
from enginehouse.ingest.record import DataVersion, Manifest
from enginehouse.measure.record import Latency
from enginehouse.prepare.record import Pack
from enginehouse.quantize.record import QuantizedModel
from enginehouse.train.record import TrainedModel
from enginehouse.validate.record import Validated


@dataclass
class Tried:
    """One candidate on one target, as far as it got here.

    Attributes:
        validation: what its engine scored there.
        failed: why it is out of the question, or "".
        waiting: why it cannot be built or run here, or "".
    """

    name: str
    precision: Precision
    engine: Engine | None = None
    parity: Parity | None = None
    validation: Scorecard | None = None
    failed: str = ""
    waiting: str = ""


@dataclass
class Road:
    """The records of one run, and what could not be made here.

    Attributes:
        quantized, onnx: by candidate; `none` is the network as it was trained.
        failed: candidate to why it came to no ONNX file.
        tried: target name to candidate to how far it got.
        decisions, latencies: by target name, of those that were scored here.
        chosen: target name to the candidate that ships; `none` where nothing could be decided.
        engines, validations, scorecards: of what ships, by target name, with the fp32 twins under
            their names; the scores are those on validation and on test.
        waiting: target name to why it cannot be built or run here.
    """

    data: DataVersion
    manifest: Manifest
    validated: Validated
    pack: Pack
    model: TrainedModel
    quantized: dict[str, QuantizedModel] = field(default_factory=dict)
    onnx: dict[str, OnnxModel] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    tried: dict[str, dict[str, Tried]] = field(default_factory=dict)
    decisions: dict[str, Decision] = field(default_factory=dict)
    latencies: dict[str, Latency] = field(default_factory=dict)
    chosen: dict[str, str] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    validations: dict[str, Scorecard] = field(default_factory=dict)
    scorecards: dict[str, Scorecard] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)
