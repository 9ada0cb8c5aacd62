"""A stand-in for the module `tensorrt`, by hand: what our code calls, and what it was told.

Where the real libraries say None, False or -1, so does this one, on request.
"""

from __future__ import annotations

import enum
from types import SimpleNamespace
from typing import Any


class Severity(enum.IntEnum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2


class ILogger:
    Severity = Severity


class FakeTensorRt:
    """Pass an instance as the module.

    Args:
        fails: the step that fails: `parse`, `profile`, `build`, `deserialize`, `context`, or "".
        classes: the output's second dimension.
    """

    __name__ = "tensorrt"
    __version__ = "11.4.0"
    ILogger = ILogger
    NetworkDefinitionCreationFlag = SimpleNamespace(STRONGLY_TYPED=1)
    BuilderFlag = SimpleNamespace(TF32="TF32")

    def __init__(self, fails: str = "", classes: int = 3) -> None:
        self.fails = fails
        self.classes = classes
        self.told: dict[str, Any] = {}

    def say(self, logger: Any, words: str) -> None:
        logger.log(Severity.WARNING, "not an error")
        logger.log(Severity.ERROR, words)

    def Builder(self, logger: Any) -> Any:  # noqa: N802
        def build(network: Any, config: Any) -> bytes | None:
            if self.fails == "build":
                self.say(logger, "no kernel\nfor node_gemm")
            return None if self.fails == "build" else b"the plan"

        def create_network(flags: int) -> Any:
            self.told["network_flags"] = flags
            return SimpleNamespace()

        def set_shape(name: str, *shapes: tuple[int, ...]) -> None:
            self.told["profile"] = (name, *shapes)

        def add_profile(profile: Any) -> int:
            if self.fails == "profile":
                self.say(logger, "no such input")
            return -1 if self.fails == "profile" else 0

        return SimpleNamespace(
            create_network=create_network,
            create_builder_config=lambda: SimpleNamespace(
                clear_flag=lambda flag: self.told.update(cleared=flag),
                add_optimization_profile=add_profile,
            ),
            create_optimization_profile=lambda: SimpleNamespace(set_shape=set_shape),
            build_serialized_network=build,
        )

    def OnnxParser(self, network: Any, logger: Any) -> Any:  # noqa: N802
        error = SimpleNamespace(
            node_name=lambda: "node_relu_4", node_operator=lambda: "Relu", desc=lambda: "no such op"
        )
        return SimpleNamespace(
            parse_from_file=lambda path: self.fails != "parse",
            num_errors=1,
            get_error=lambda number: error,
        )

    def Runtime(self, logger: Any) -> Any:  # noqa: N802
        def deserialize(plan: bytes) -> Any:
            self.told["plan"] = plan
            if self.fails == "deserialize":
                self.say(logger, "wrong version tag")
                return None
            return SimpleNamespace(
                create_execution_context=lambda: (
                    None if self.fails == "context" else SimpleNamespace()
                ),
                get_tensor_shape=lambda name: (-1, self.classes),
            )

        return SimpleNamespace(deserialize_cuda_engine=deserialize)
