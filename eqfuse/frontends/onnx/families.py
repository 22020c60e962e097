"""The families of ONNX operators: importing them fills the table."""

from eqfuse.frontends.onnx import (  # noqa: F401  (each fills its rows)
    attention,
    elementwise,
    indexing,
    loops,
    manipulation,
    networks,
    quantised,
    recurrent,
    reductions,
    resize,
    sequences,
    signal,
    windows,
)
