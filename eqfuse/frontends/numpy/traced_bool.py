"""What NumPy gives as a Python bool though it depends on data: whether arrays are equal, or close.

In: a traced array of rank 0. Out: a `TracedBool`, which arrays, np.where and ef.cond take as one of NumPy's bools, and
which a program gives back as Python's. Arithmetic on it alone would be a Python number that is not known: refused.
"""

from __future__ import annotations

from eqfuse.errors import TraceError
from eqfuse.frontends.numpy.storage import Rights, Storage
from eqfuse.frontends.numpy.tracer import Tracer


class TracedBool(Tracer):
    """Stands for a Python bool that depends on data."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return bool

    @property
    def refusal(self) -> TraceError:
        """Of operators that Python has for numbers."""
        return TraceError(
            "arithmetic on what np.allclose, np.array_equal or np.array_equiv gives: that is a Python bool, of which "
            "Python would make a number that is not known while the function is traced. (a == b).all() is a bool of "
            "NumPy's; np.where(equal, x, y) chooses by either"
        )


def traced_bool(scalar: Tracer) -> TracedBool:
    """`scalar`, which is a bool of rank 0, as Python's."""
    return TracedBool(scalar.tensor_type, Storage(scalar.node), (), Rights.SCALAR)
