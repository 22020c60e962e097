"""How NumPy lays out the arrays that its functions make of traced ones.

In: a function and its arguments. Out: what is known of its results' memory. For elementwise work, folds and copies
NumPy itself is asked, on small arrays that lie alike; other functions give arrays in C order for arrays in C order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from eqfuse.frontends.numpy.number import Number
from eqfuse.frontends.numpy.tracer import Tracer
from eqfuse.ir.strides import IN_ORDER, MemoryLayout, is_line, like_small, of_small, strides_of
from eqfuse.ops.types import TensorType

NumpyFunction = Callable[..., Any]
Arguments = Mapping[str, Any]
# whose implementations say it themselves
_OWN = frozenset((
    np.reshape, np.ravel, np.copy, np.astype, np.meshgrid, np.broadcast_to, np.broadcast_arrays,
))  # fmt: skip
# whose results of rank 0 are arrays, not scalars
_NO_SCALARS = frozenset((
    np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.block, np.isin, np.pad, np.piecewise, np.real_if_close,
    np.where, np.fft.fftn, np.fft.ifftn, np.cross,
))  # fmt: skip
# what these give does not lie in C order even if what they take does
_TURNED = frozenset((
    np.histogramdd, np.percentile, np.quantile, np.nanpercentile, np.nanquantile, np.cross, np.linalg.cross,
    np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.apply_along_axis,
))  # fmt: skip


def of_elementwise(function: NumpyFunction, operands: Sequence[Any], type: TensorType) -> MemoryLayout | None:
    """How the result of elementwise work lies, of tracers and Python numbers."""
    if is_line(type.shape):
        return IN_ORDER
    arrays = _arrays(operands)
    if any(x.layout is None for x in arrays):
        return None
    if all(x.runs_in_order() for x in arrays):
        return MemoryLayout(None, _arguments(arrays))
    return _numpy_layout(function, operands, {}, arrays, type, 0)


def laid_as(function: NumpyFunction, args: Sequence[Any], x: Tracer) -> Tracer:
    """`x`, a new array, which lies like what `function` makes of small arrays that lie like `args`."""
    if not is_line(x.shape):
        x.set_layout(_numpy_layout(function, args, {}, _arrays(args), x.tensor_type, 0))
    return x


def lay_out(function: NumpyFunction, args: Sequence[Any], kwargs: Arguments, results: Any) -> None:
    """Say of the new arrays among `results` how they lie."""
    leaves = list(_leaves(results))
    for x in leaves:
        if isinstance(x, Tracer) and x.scalar and function in _NO_SCALARS:
            x.as_array()
    fresh = [(i, x) for i, x in enumerate(leaves) if isinstance(x, Tracer) and not (x.scalar or is_line(x.shape))]
    if not fresh or function in _OWN:
        return
    tracers = list(_tracers((args, kwargs)))
    arrays = _arrays(tracers)
    for i, x in fresh:
        if not x.is_of(tracers) and not x.is_of([other for _, other in fresh if other is not x]):
            x.set_layout(_of_call(function, args, kwargs, arrays, x.tensor_type, i))


def _of_call(
    function: NumpyFunction, args: Sequence[Any], kwargs: Arguments, arrays: list[Tracer], type: TensorType, place: int
) -> MemoryLayout | None:
    in_order = all(x.runs_in_order() for x in arrays) and all(strides_of(c) is None for c in _constants((args, kwargs)))
    if in_order and function not in _TURNED and "order" not in kwargs:
        return MemoryLayout(None, _arguments(arrays))
    return _numpy_layout(function, args, kwargs, arrays, type, place)


def _numpy_layout(
    function: NumpyFunction, args: Sequence[Any], kwargs: Arguments, arrays: list[Tracer], type: TensorType, place: int
) -> MemoryLayout | None:
    """How NumPy lays out the result at `place`; None where it cannot be asked."""
    if any(x.layout is None for x in arrays):
        return None
    try:
        results = of_small(function, tuple(map(_outlined, args)), {k: _outlined(v) for k, v in kwargs.items()})
        return MemoryLayout(like_small(list(_leaves(results))[place], type), _arguments(arrays))
    except Exception:  # whatever the function has against small arrays
        return None


def _arrays(tree: Any) -> list[Tracer]:
    """The tracers that can lie in several ways."""
    return [x for x in _tracers(tree) if not is_line(x.shape)]


def _arguments(arrays: Sequence[Tracer]) -> frozenset[int]:
    return frozenset[int]().union(*(x.layout.arguments for x in arrays if x.layout is not None))


def _outlined(value: Any) -> Any:
    if isinstance(value, Tracer):
        outline = value.outline()
        if outline is None:
            raise ValueError("an operand's layout is not known")
        return outline
    if isinstance(value, Number):
        return value.kind(1)
    return tuple(map(_outlined, value)) if isinstance(value, (list, tuple)) else value


def _tracers(tree: Any) -> Iterator[Tracer]:
    return (leaf for leaf in _leaves(tree) if isinstance(leaf, Tracer))


def _constants(tree: Any) -> Iterator[np.ndarray]:
    return (leaf for leaf in _leaves(tree) if type(leaf) is np.ndarray)


def _leaves(tree: Any) -> Iterator[Any]:
    if isinstance(tree, (tuple, list, dict)):
        for child in tree.values() if isinstance(tree, dict) else tree:
            yield from _leaves(child)
    else:
        yield tree
