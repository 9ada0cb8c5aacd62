"""Which node of a graph an engine computes otherwise than the graph says: found by its own backend.

An engine gives its last tensor only. So the graph is cut off at a tensor inside, built, and run;
halving what is left takes about log2(n) builds. Where branches meet, a cut may look healthy that
lies beside the fault; so the search goes on upstream until a node is found whose inputs all agree.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from enginehouse.artifact import Workspace, silent
from enginehouse.build.record import Engine
from enginehouse.compare.divergence import LIMITS, Divergence, measure_divergence
from enginehouse.compare.reference import run_literally
from enginehouse.compare.step import measure_differences
from enginehouse.compare.truncate import Cuts
from enginehouse.engine import Pictures, Probabilities, load_backend
from enginehouse.errors import EngineError

if TYPE_CHECKING:
    from onnx import ModelProto

NUM_PICTURES = 4  # that go through each cut graph, where the engine's profile takes so few
MAX_VALUES = 1 << 16  # of a tensor, per picture: of more, evenly spread ones
MAX_BUILDS = 60
MARGIN = 3.0  # dB: where even the answers are above the limit, how much better counts as healthy


class Search:
    """Looks for the first node that an engine's backend computes otherwise.

    Args:
        engine: it differs from the graph.
        model: the graph it was built from.
        pictures: uint8 [n, 3, size, size], those on which it differs most first.
        here: workspace; `probe` in its scratch folder is used.
    """

    def __init__(
        self, engine: Engine, model: ModelProto, pictures: Pictures, here: Workspace
    ) -> None:
        self.engine = engine
        self.cuts = Cuts(model, engine.sidecar.contract)
        self.here = here
        self.num_builds = 0
        self._folder = here.scratch / "probe"
        self._seen: dict[str, Divergence] = {}
        self._reason = ""
        profile = engine.sidecar.batch
        wanted = min(max(NUM_PICTURES, profile.min), profile.max)
        self._rows = np.arange(wanted) % len(pictures)
        self._pictures = np.ascontiguousarray(pictures[self._rows])

    def describe(self, difference: NDArray[np.float32]) -> str:
        """What was found, in sentences.

        Args:
            difference: how far the engine is off in each of the pictures, [n].
        """
        last = self.cuts.contract.output_name
        try:
            wanted, found = self._run_both(last)
        except EngineError as error:
            return f"Where it begins cannot be told, as it cannot be built again: {error.message}"
        again = float(measure_differences(wanted, found).mean())
        if again < difference[self._rows].mean() / 2:
            return (
                f"Built again from the same file it differs by {again:.3g} on average only, so the "
                "difference lies in this engine's own bytes."
            )
        # A softmax may hide what differs before it.
        self._seen[last] = measure_divergence(self.cuts.name_nodes(last), wanted, found)
        places = {name: self._probe(name) for name in (last, *self.cuts.find_nearest(last))}
        known = {name: place for name, place in places.items() if place}
        start = min(known, key=lambda name: known[name].decibels)
        limit = max(LIMITS[self.engine.sidecar.precision], known[start].decibels + MARGIN)
        first = self._find_first(start, limit)
        place = replace(self._seen[first], place=self.cuts.name_nodes(first))
        skipped = f" Some tensors cannot be asked for: {self._reason}" if self._reason else ""
        return f"The first node that diverges is {place.describe()}.{skipped}"

    def _find_first(self, tensor: str, limit: float) -> str:
        """The tensor upstream of this one that is off while all that it is made from agrees."""
        while True:
            before = self.cuts.find_before(tensor)
            order = [name for name in self.cuts.tensors if name in before] + [tensor]
            low, high = -1, len(order) - 1
            while high - low > 1:
                middle = (low + high) // 2
                place = self._probe(order[middle])
                if place is None:
                    del order[middle]
                    high -= 1
                elif place.decibels < limit:
                    high = middle
                else:
                    low = middle
            tensor = order[high]
            places = {name: self._probe(name) for name in self.cuts.find_nearest(tensor)}
            off = [name for name, place in places.items() if place and place.decibels < limit]
            if not off:
                return tensor
            tensor = off[0]

    def _probe(self, tensor: str) -> Divergence | None:
        """How far the engine is off at a tensor; None, and it is left out, where none can tell."""
        if tensor in self._seen or tensor not in self.cuts.tensors:
            return self._seen.get(tensor)
        if self.num_builds >= MAX_BUILDS:
            self._reason = f"the search ended after {self.num_builds} builds."
            return None
        self.num_builds += 1
        self.here.report(f"look for the first node that diverges, build {self.num_builds}")
        try:
            wanted, found = self._run_both(tensor)
        except EngineError as error:
            self._reason = error.message
            self.cuts.drop(tensor)
            return None
        place = measure_divergence(self.cuts.name_nodes(tensor), wanted, found)
        self._seen[tensor] = place
        return place

    def _run_both(self, tensor: str) -> tuple[Probabilities, Probabilities]:
        """The tensor by the graph and by the engine, float32 [n, values]."""
        contract = self.cuts.contract
        cut = self.cuts.cut(tensor)
        wanted = run_literally(cut, contract, self._pictures)
        step = math.ceil(wanted.shape[1] / MAX_VALUES)
        if step > 1:
            while math.gcd(step, wanted.shape[1]) > 1:  # else it might see one column only
                step += 1
            cut, wanted = self.cuts.cut(tensor, step), wanted[:, ::step]
        names = tuple(str(number) for number in range(wanted.shape[1]))
        shutil.rmtree(self._folder, ignore_errors=True)
        files = self._build(cut)
        sidecar = self.engine.sidecar.model_copy(
            update={"contract": contract.model_copy(update={"classes": names})}
        )
        session = load_backend(sidecar.backend).load(files, sidecar, 0)
        try:
            found = session.run(self._pictures).copy()
        finally:
            session.close()
        return wanted, found

    def _build(self, cut: ModelProto) -> dict[str, Path]:
        import onnx

        engine = self._folder / "engine"
        engine.mkdir(parents=True)
        path = self._folder / "cut.onnx"
        onnx.save(cut, path)
        target = self.engine.target
        backend = load_backend(target.backend)
        backend.build(path, target, self.cuts.contract, engine, silent)
        return {path.name: path for path in engine.iterdir()}
