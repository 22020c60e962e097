"""The families of torch's operators: importing them fills the table."""

from eqfuse.frontends.torch import (  # noqa: F401  (each fills its rows)
    attention,
    elementwise,
    indexing,
    manipulation,
    networks,
    pooling,
    reductions,
)
