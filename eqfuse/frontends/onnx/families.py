"""The families of ONNX operators: importing them fills the table."""

from eqfuse.frontends.onnx import (  # noqa: F401  (each fills its rows)
    attention,
    control,
    elementwise,
    indexing,
    manipulation,
    networks,
    quantised,
    recurrent,
    reductions,
    resize,
    signal,
    windows,
)
