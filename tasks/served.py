"""What MLflow runs when a registered model or engine is loaded as pyfunc; shipped inside it."""

from pathlib import Path
from typing import Any

import mlflow.models
import mlflow.pyfunc
import numpy as np


class ServedModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc,name-defined]
    """Pictures in, class probabilities out.

    Takes uint8 arrays: prepared ones [n, 3, size, size], or RGB pictures [n, height, width, 3] of
    any one size, which are resized as in training. Gives float32 [n, classes].
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
            self._batch, self._size = engine.target.batch, engine.sidecar.contract.size
        else:
            import onnxruntime

            from enginehouse.backends.onnxruntime_backend import OnnxRuntimeSession

            session = onnxruntime.InferenceSession(context.artifacts["onnx"])
            properties = session.get_modelmeta().custom_metadata_map
            contract = Contract.model_validate_json(properties["contract"])
            self._session = OnnxRuntimeSession(session, contract)
            self._batch, self._size = BatchProfile(), contract.size

    def predict(self, context: Any, model_input: np.ndarray, params: Any = None) -> np.ndarray:
        """Class probabilities, float32 [n, classes]."""
        from enginehouse.engine import run_in_batches
        from enginehouse.picture import resize_picture

        pictures = model_input
        if pictures.shape[1:] != (3, self._size, self._size):
            if pictures.ndim != 4 or pictures.shape[3] != 3:
                raise ValueError(
                    f"wanted uint8 [n, 3, {self._size}, {self._size}] or [n, height, width, 3], "
                    f"found {pictures.dtype} {pictures.shape}"
                )
            pictures = np.stack([resize_picture(each, self._size) for each in pictures])
        return run_in_batches(self._session, pictures, self._batch)


mlflow.models.set_model(ServedModel())
