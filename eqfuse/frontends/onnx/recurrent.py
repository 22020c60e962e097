"""ONNX recurrent layers, as scans over their steps; few steps are unrolled.

In: calls of rows from `nodes.py`. Out: traced arrays, by NumPy's functions and `eqfuse.functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from eqfuse import functions as f
from eqfuse.errors import ShapeError, UnsupportedOp
from eqfuse.frontends.numpy.loops import scan
from eqfuse.frontends.numpy.promotion import lift
from eqfuse.frontends.numpy.tracer import lazy
from eqfuse.frontends.onnx.loops import ROLLED, unrolled
from eqfuse.frontends.onnx.table import need_shape, one_of, operator

Activation = Callable[[Any], Any]
Words = tuple[str, ...]
Floats = tuple[float, ...]

# with the numbers alpha and beta that they take, and what these are when not given
_ACTIVATIONS: dict[str, tuple[Callable[..., Any], Floats]] = {
    "relu": (f.relu, ()), "tanh": (f.tanh, ()), "sigmoid": (f.sigmoid, ()), "softplus": (f.softplus, ()),
    "softsign": (lambda x: x / (np.abs(x) + 1), ()),
    "affine": (lambda x, a, b: x * a + b, (1.0, 0.0)),
    "leakyrelu": (f.leaky_relu, (0.01,)),
    "thresholdedrelu": (lambda x, a: f.where(x > a, x, 0), (1.0,)),
    "scaledtanh": (lambda x, a, b: lazy.tanh(x * b) * a, (1.0, 1.0)),
    "hardsigmoid": (lambda x, a, b: lazy.maximum(lazy.minimum(x * a + b, 1), 0), (0.2, 0.5)),
    "elu": (f.elu, (1.0,)),
}  # fmt: skip


def _activations(names: Words, default: Words, directions: int, alphas: Floats, betas: Floats) -> list[Activation]:
    """One function per gate and direction, as the attributes name them."""
    if names and len(names) != len(default) * directions:
        raise ShapeError(f"it has {len(names)} activations instead of {len(default) * directions}")
    coefficients: list[Iterator[float]] = [iter(alphas), iter(betas)]
    functions: list[Activation] = []
    for name in names or default * directions:
        if name.lower() not in _ACTIVATIONS:
            raise UnsupportedOp(f"the activation {name!r} of a recurrent layer")
        function, defaults = _ACTIVATIONS[name.lower()]
        numbers = [next(rest, d) for rest, d in zip(coefficients, defaults, strict=False)]
        functions.append(_with(function, numbers))
    return functions


def _with(function: Callable[..., Any], numbers: list[float]) -> Activation:
    return lambda x: function(x, *numbers)


class _Layer:
    """What the three layers share: directions, layouts, the steps and their results."""

    def __init__(
        self, x: Any, w: Any, r: Any, bias: Any, lengths: Any, direction: str, layout: int, gates: int,
        clip: float | None, hidden_size: int,
    ) -> None:  # fmt: skip
        one_of(direction, ("forward", "reverse", "bidirectional"), "direction")
        self.x = lazy.swapaxes(x, 0, 1) if layout else x  # [step, batch, input]
        self.directions, self.hidden = r.shape[0], r.shape[-1]
        self.backward = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
        along, hidden = len(self.backward), hidden_size or self.hidden
        need_shape(w, (along, gates * hidden, x.shape[-1]), f"W of the direction {direction!r}")
        need_shape(r, (along, gates * hidden, hidden), f"R of the direction {direction!r}")
        need_shape(bias, (along, 2 * gates * hidden), "B")
        need_shape(lengths, (self.x.shape[1],), "sequence_lens")
        self.layout, self.lengths, self.clip = layout, lengths, clip
        zeros = np.zeros((self.directions, 2 * gates * self.hidden), x.dtype)
        self.bias = lift(zeros) if bias is None else bias

    def initial(self, state: Any) -> Any:
        """[direction, batch, hidden]"""
        if state is None:
            return lift(np.zeros((self.directions, self.x.shape[1], self.hidden), self.x.dtype))
        turned = lazy.swapaxes(state, 0, 1) if self.layout else state
        need_shape(turned, (self.directions, self.x.shape[1], self.hidden), "an initial state")
        return turned

    def clipped(self, x: Any) -> Any:
        return x if self.clip is None else lazy.minimum(lazy.maximum(x, -self.clip), self.clip)

    def run(self, step: Callable[..., tuple[Any, ...]], *states: Any) -> tuple[Any, ...]:
        """``step(direction, x, *states)`` gives the new states, of which the first is put out."""
        steps = self.x.shape[0]
        through = scan if steps >= ROLLED else unrolled
        outputs, finals = [], []
        for d, backward in enumerate(self.backward):

            def one(now: tuple[Any, ...], row: tuple[Any, Any], d: int = d) -> tuple[Any, Any]:
                x, t = row
                after = step(d, x, *now)
                if self.lengths is None:
                    return after, after[:1]
                running = (self.lengths > t).reshape(-1, 1)
                kept = tuple(f.where(running, new, old) for new, old in zip(after, now, strict=True))
                return kept, (f.where(running, after[0], 0),)

            last, (put,) = through(one, tuple(s[d] for s in states), (self.x, np.arange(steps)), reverse=backward)
            outputs.append(put)
            finals.append(last)
        y = lazy.stack(outputs, 1)  # [step, direction, batch, hidden]
        last = [lazy.stack(each) for each in zip(*finals, strict=True)]
        if self.layout:
            return y.transpose(2, 0, 1, 3), *(s.transpose(1, 0, 2) for s in last)
        return y, *last

    def biases(self, d: int, gates: int) -> list[Any]:
        """The input's biases of direction `d` per gate, then the state's."""
        return lazy.split(self.bias[d], 2 * gates)


@operator("RNN", since=7)
def rnn(
    x: Any, w: Any, r: Any, bias: Any = None, lengths: Any = None, initial_h: Any = None, *,
    activation_alpha: Floats = (), activation_beta: Floats = (), activations: Words = (), clip: float | None = None,
    direction: str = "forward", hidden_size: int = 0, layout: int = 0,
) -> Any:  # fmt: skip
    layer = _Layer(x, w, r, bias, lengths, direction, layout, 1, clip, hidden_size)
    act = _activations(activations, ("Tanh",), layer.directions, activation_alpha, activation_beta)

    def step(d: int, x: Any, h: Any) -> tuple[Any, ...]:
        at_input, at_state = layer.biases(d, 1)
        return (act[d](layer.clipped(x @ w[d].T + h @ r[d].T + (at_input + at_state))),)

    return layer.run(step, layer.initial(initial_h))


@operator("GRU", since=7)
def gru(
    x: Any, w: Any, r: Any, bias: Any = None, lengths: Any = None, initial_h: Any = None, *,
    activation_alpha: Floats = (), activation_beta: Floats = (), activations: Words = (), clip: float | None = None,
    direction: str = "forward", hidden_size: int = 0, layout: int = 0, linear_before_reset: int = 0,
) -> Any:  # fmt: skip
    layer = _Layer(x, w, r, bias, lengths, direction, layout, 3, clip, hidden_size)
    act = _activations(activations, ("Sigmoid", "Tanh"), layer.directions, activation_alpha, activation_beta)

    def step(d: int, x: Any, h: Any) -> tuple[Any, ...]:
        first, second = act[2 * d : 2 * d + 2]
        wz, wr, wh = lazy.split(w[d], 3)
        rz, rr, rh = lazy.split(r[d], 3)
        bz, br, bh, sz, sr, sh = layer.biases(d, 3)
        z = first(layer.clipped(x @ wz.T + h @ rz.T + (bz + sz)))
        reset = first(layer.clipped(x @ wr.T + h @ rr.T + (br + sr)))
        past = reset * (h @ rh.T + sh) if linear_before_reset else (reset * h) @ rh.T + sh
        new = second(layer.clipped(x @ wh.T + past + bh))
        return ((1 - z) * new + z * h,)

    return layer.run(step, layer.initial(initial_h))


@operator("LSTM", since=7)
def lstm(
    x: Any, w: Any, r: Any, bias: Any = None, lengths: Any = None, initial_h: Any = None, initial_c: Any = None,
    peepholes: Any = None, *, activation_alpha: Floats = (), activation_beta: Floats = (), activations: Words = (),
    clip: float | None = None, direction: str = "forward", hidden_size: int = 0, input_forget: int = 0,
    layout: int = 0,
) -> Any:  # fmt: skip
    layer = _Layer(x, w, r, bias, lengths, direction, layout, 4, clip, hidden_size)
    need_shape(peepholes, (layer.directions, 3 * layer.hidden), "P")
    act = _activations(activations, ("Sigmoid", "Tanh", "Tanh"), layer.directions, activation_alpha, activation_beta)

    def step(d: int, x: Any, h: Any, c: Any) -> tuple[Any, ...]:
        gate, fresh, shown = act[3 * d : 3 * d + 3]
        at_input, at_state = lazy.split(layer.bias[d], 2)
        i, o, forget, new = lazy.split(x @ w[d].T + h @ r[d].T + (at_input + at_state), 4, -1)
        pi, po, pf = (0, 0, 0) if peepholes is None else lazy.split(peepholes[d], 3)
        into = gate(layer.clipped(i if peepholes is None else i + pi * c))
        keep = 1 - into if input_forget else gate(layer.clipped(forget if peepholes is None else forget + pf * c))
        after = keep * c + into * fresh(layer.clipped(new))
        out = gate(layer.clipped(o if peepholes is None else o + po * after))
        return out * shown(after), after

    return layer.run(step, layer.initial(initial_h), layer.initial(initial_c))
