"""What MLflow runs when a registered model or engine is loaded as pyfunc; shipped inside it."""

from pathlib import Path
from typing import Any

import mlflow.models
import mlflow.pyfunc
import numpy as np


class ServedModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc,name-defined]
    """Pictures in, class probabilities out.

    Takes uint8 arrays: prepared ones [n, 3, size, size], or RGB pictures [n, height, width, 3] of
    any one size, which are prepared as in training: cleaned, cut into windows whose answers are
    folded, resized. Gives float32 [n, classes].
    """

    def load_context(self, context: Any) -> None:
        """Open the engine, or where there is only the ONNX file, ONNX Runtime."""
        from enginehouse.engine import BatchProfile, Contract, open_engine

        if "engine" in context.artifacts:
            from enginehouse.build.record import Engine

            folder = Path(context.artifacts["engine"])
            engine = Engine.from_json((folder / "engine.json").read_text(encoding="utf-8"))
            files = {name: folder / name for name in engine.files}
            self._session = open_engine(files, engine.target, engine.sidecar)
            self._batch, self._contract = engine.target.batch, engine.sidecar.contract
        else:
            import onnxruntime

            from enginehouse.backends.onnxruntime_backend import OnnxRuntimeSession

            session = onnxruntime.InferenceSession(context.artifacts["onnx"])
            properties = session.get_modelmeta().custom_metadata_map
            contract = Contract.model_validate_json(properties["contract"])
            self._session = OnnxRuntimeSession(session, contract)
            self._batch, self._contract = BatchProfile(), contract

    def predict(self, context: Any, model_input: np.ndarray, params: Any = None) -> np.ndarray:
        """Class probabilities, float32 [n, classes]."""
        from enginehouse.engine import run_in_batches
        from enginehouse.preparation import fold_scores
        from enginehouse.prepared_picture import prepare_picture

        size, preparation = self._contract.size, self._contract.preparation
        if model_input.shape[1:] == (3, size, size):
            return run_in_batches(self._session, model_input, self._batch)
        if model_input.ndim != 4 or model_input.shape[3] != 3:
            raise ValueError(
                f"wanted uint8 [n, 3, {size}, {size}] or [n, height, width, 3], "
                f"found {model_input.dtype} {model_input.shape}"
            )
        prepared = [prepare_picture(each, preparation) for each in model_input]
        scores = run_in_batches(self._session, np.concatenate(prepared), self._batch)
        parts = np.split(scores, len(prepared))  # of one size, so of as many windows each
        classes, good = self._contract.classes, preparation.good
        return np.stack([fold_scores(part, classes, good) for part in parts])


mlflow.models.set_model(ServedModel())
