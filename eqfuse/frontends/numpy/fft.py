"""numpy.fft: transforms along one axis as library calls; over several axes one after another, as NumPy does it.

In: array-function calls on tracers. Out: tracers of complex (or, for the inverse of a real transform, real) values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqfuse.errors import DtypeError, ShapeError
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.reductions import is_sequence, negative_axes
from eqfuse.frontends.numpy.registry import implements
from eqfuse.frontends.numpy.tracer import Tracer, lazy, wrap
from eqfuse.ir.graph import node

_SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}
Transform = Callable[[Tracer, int | None, int, str | None], Tracer]


def _transform(name: str) -> Transform:
    def call(x: Tracer, n: int | None, axis: int, norm: str | None) -> Tracer:
        (along,) = negative_axes(axis, x.ndim)
        if norm not in _SWAPPED:
            raise ShapeError(f"np.fft: Invalid norm value {norm}; should be 'backward', 'ortho' or 'forward'.")
        if n is None:
            n = 2 * (x.shape[along] - 1) if name == "irfft" else x.shape[along]
        if name == "rfft" and x.dtype.kind == "c":
            raise DtypeError("np.fft.rfft transforms real values; take .real first")
        return wrap(node(name, (x.node,), (operator.index(n), along, norm)))

    return call


_fft, _ifft, _rfft, _irfft = (_transform(n) for n in ("fft", "ifft", "rfft", "irfft"))


def _single(name: str, transform: Transform) -> None:
    def call(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None) -> Tracer:
        return transform(lift(a), n, axis, norm)

    implements(getattr(np.fft, name))(call)


for _name, _one in (("fft", _fft), ("ifft", _ifft), ("rfft", _rfft), ("irfft", _irfft)):
    _single(_name, _one)


def _swapped(norm: str | None) -> str:
    if norm not in _SWAPPED:
        raise ShapeError(f"np.fft: Invalid norm value {norm}; should be 'backward', 'ortho' or 'forward'.")
    return _SWAPPED[norm]


@implements(np.fft.hfft)
def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None) -> Tracer:
    return _irfft(lift(a).conj(), n, axis, _swapped(norm))


@implements(np.fft.ihfft)
def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None, out: None = None) -> Tracer:
    return _rfft(lift(a), n, axis, _swapped(norm)).conj()


# ---- several axes


def _extents(x: Tracer, s: Any, axes: Any, half: bool) -> tuple[list[int], list[int]]:
    """Extent and axis of every transform, in the user's order. `half`: the last axis holds half of a spectrum."""
    if s is None:
        chosen = list(range(x.ndim)) if axes is None else list(axes)
        extents = [x.shape[i] for i in negative_axes(tuple(dict.fromkeys(chosen)), x.ndim)]
        extents = [x.shape[a] for a in chosen] if len(extents) != len(chosen) else extents
        if half and extents:
            extents[-1] = 2 * (extents[-1] - 1)
        return extents, chosen
    extents = [operator.index(n) for n in s]
    chosen = list(range(-len(extents), 0)) if axes is None else list(axes)
    if len(extents) != len(chosen):
        raise ShapeError("np.fft: Shape and axes have different lengths.")
    return [x.shape[a] if n == -1 else n for n, a in zip(extents, chosen, strict=True)], chosen


def _one_by_one(transform: Transform, x: Tracer, extents: Sequence[int], axes: Sequence[int], norm: Any) -> Tracer:
    for n, axis in zip(extents, axes, strict=True):
        x = transform(x, n, axis, norm)
    return x


def _full(x: Tracer, s: Any, axes: Any, norm: Any, transform: Transform) -> Tracer:
    extents, chosen = _extents(x, s, axes, half=False)
    return _one_by_one(transform, x, extents[::-1], chosen[::-1], norm)


def _real(x: Tracer, s: Any, axes: Any, norm: Any) -> Tracer:
    """The last axis first, from real values; then the others."""
    extents, chosen = _extents(x, s, axes, half=False)
    if not chosen:
        raise ShapeError("np.fft.rfftn: at least 1 axis must be transformed")
    half = _rfft(x, extents[-1], chosen[-1], norm)
    return _one_by_one(_fft, half, extents[-2::-1], chosen[-2::-1], norm)


def _real_inverse(x: Tracer, s: Any, axes: Any, norm: Any) -> Tracer:
    extents, chosen = _extents(x, s, axes, half=True)
    if not chosen:
        raise ShapeError("np.fft.irfftn: at least 1 axis must be transformed")
    return _irfft(_one_by_one(_ifft, x, extents[:-1], chosen[:-1], norm), extents[-1], chosen[-1], norm)


@implements(np.fft.fftn)
def fftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: None = None) -> Tracer:
    return _full(lift(a), s, axes, norm, _fft)


@implements(np.fft.ifftn)
def ifftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: None = None) -> Tracer:
    return _full(lift(a), s, axes, norm, _ifft)


@implements(np.fft.rfftn)
def rfftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: None = None) -> Tracer:
    return _real(lift(a), s, axes, norm)


@implements(np.fft.irfftn)
def irfftn(a: Any, s: Any = None, axes: Any = None, norm: str | None = None, out: None = None) -> Tracer:
    return _real_inverse(lift(a), s, axes, norm)


@implements(np.fft.fft2)
def fft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: None = None) -> Tracer:
    return _full(lift(a), s, axes, norm, _fft)


@implements(np.fft.ifft2)
def ifft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: None = None) -> Tracer:
    return _full(lift(a), s, axes, norm, _ifft)


@implements(np.fft.rfft2)
def rfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: None = None) -> Tracer:
    return _real(lift(a), s, axes, norm)


@implements(np.fft.irfft2)
def irfft2(a: Any, s: Any = None, axes: Any = (-2, -1), norm: str | None = None, out: None = None) -> Tracer:
    return _real_inverse(lift(a), s, axes, norm)


# ---- shifts


def _shifted(x: Tracer, axes: Any, forth: bool) -> Tracer:
    chosen = range(x.ndim) if axes is None else axes if is_sequence(axes) else (axes,)
    halves = [x.shape[a] // 2 if forth else -(x.shape[a] // 2) for a in chosen]
    return lazy.roll(x, tuple(halves), tuple(chosen))


@implements(np.fft.fftshift)
def fftshift(x: Any, axes: Any = None) -> Tracer:
    return _shifted(lift(x), axes, forth=True)


@implements(np.fft.ifftshift)
def ifftshift(x: Any, axes: Any = None) -> Tracer:
    return _shifted(lift(x), axes, forth=False)
