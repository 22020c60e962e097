"""The families of torch's operators, and NumPy's, which they call: importing them fills the tables."""

from eqfuse.frontends.numpy import families as numpy_families  # noqa: F401
from eqfuse.frontends.torch import (  # noqa: F401  (each fills its rows)
    attention,
    elementwise,
    indexing,
    manipulation,
    networks,
    pooling,
    reductions,
)
