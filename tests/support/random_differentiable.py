"""Random differentiable NumPy programs as text: values, views and writes into them, gathers, loops, in float64.

In: a seed. Out: `DifferentiableProgram`, whose function gives one number. Its text is also that of other libraries with
NumPy's names, which have views where NumPy has them: nothing writes through what would be a copy there, or to a scalar.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

import eqfuse
from tests.support.programs import EXACT, SMOOTH
from tests.support.statements import REFUSED

LARGEST_SIZE, LARGEST_RANK, LARGEST_VALUE = 60, 4, 1e3
SHAPES = ((), (1,), (3,), (5,), (2, 3), (3, 3), (4, 1), (1, 4), (2, 3, 2), (2, 1, 3))

# {new}: a new name; {a}, {b}, {c}: earlier values; {axis}: an axis of {a}; {k}: keepdims; {s}: a number; {i}, {j}:
# places along the first axis of {a}; {key}: slices of {a}
VIEWS = (
    *("{a}[{key}]",) * 3, "{a}.reshape(-1) * {s}", "{a}.T", "np.swapaxes({a}, 0, -1)", "{a}[..., None]", "{a}[None]",
    "np.moveaxis({a}, {axis}, 0)", "np.squeeze({a})", "np.atleast_2d({a})", "np.expand_dims({a}, {axis})",
    "np.split({a}, [1], axis={axis})[1] * {s}", "{a}.diagonal()", "{a}",
)  # fmt: skip
GATHERS = (
    "{a}[np.array([{i}, {j}, {i}])]", "np.take({a}, np.array([{i}, {j}]), axis=0)", "{a}[np.array([{j}, {j}])] * {s}",
    "np.take_along_axis({a}, np.argsort({a}, axis={axis}), {axis})", "np.sort({a}, axis={axis})",
    "np.where({a} > {b}, {a} * {b}, {c})", "np.where({a} > 0.3, {a}, {a} * {a})", "np.roll({a}, 1, axis={axis})",
    "np.tile({a}, 2)", "np.repeat({a}, 2, axis={axis})", "np.diff({a}, axis={axis})", "np.tril({a})",
    "np.diag({a}) * {s}", "np.flip({a}, {axis}) * {s}", "np.pad({a}, 1) * {s}", "{a}[np.array([{i}]), ...]",
    "np.stack([{a}, {a} * {s}], axis={axis})", "np.trace({a})", "np.outer({a}.ravel(), {b}.ravel())",
    "np.einsum('...i,...i->...', {a}, {b})", "np.einsum('ij,kj->ik', {a}, {b})", "np.cumprod({a}, axis={axis})",
    "{a}.prod(axis={axis}, keepdims={k})", "np.sqrt({a}.var(axis={axis}) + 0.1)", "np.ptp({a})", "np.kron({a}, {b})",
    "np.tensordot({a}, {b}, 1)", "{a}.max(axis={axis})", "np.hypot({a}, {b} + 3)",
    "np.power(np.abs({a}) + 0.5, {b})", "np.arctan2({a}, {b} + 3)", "np.clip({a}, -0.77, 0.77)",
    "np.average({a}, axis={axis})", "np.inner({a}, {b})", "np.cbrt({a} * {a} + 1)",
)  # fmt: skip
MATRICES = (
    "np.linalg.inv({a} @ {a}.T + 2 * np.eye(len({a})))", "np.linalg.det({a} @ {a}.T / 9 + np.eye(len({a})))",
    "np.linalg.slogdet({a} @ {a}.T + np.eye(len({a})))[1]", "np.linalg.cholesky({a} @ {a}.T + np.eye(len({a})))",
    "np.linalg.solve({a} @ {a}.T + 2 * np.eye(len({a})), {a})", "np.linalg.eigvalsh({a} @ {a}.T)",
    "np.linalg.norm({a} - 5)", "np.linalg.norm({a} + 4, axis={axis})", "np.linalg.svd({a}, compute_uv=False)",
    "np.linalg.pinv({a})",
)  # fmt: skip
COMPLEX = (
    "{a} * (1 + 2j)", "np.exp({a} * 1j)", "np.fft.fft({a}, axis={axis})", "np.fft.ifft({a}, axis={axis})",
    "np.fft.rfft({a}, axis={axis})", "{a} + {b}", "{a} * {b}", "{a} - {b}", "{a} / ({b} * {b} + 3)", "np.sin({a})",
    "np.conj({a}) * 1j", "{a}.real", "{a}.imag", "{a}.real * {b}.imag", "np.abs({a} + 2)", "{a} @ {b}", "{a}.sum()",
    "{a}.sum(axis={axis})", "np.square({a})", "np.where({b}.real > 0, {a}, {b})", "{a}.T", "np.sqrt({a} + 4)",
    "np.cumsum({a}, axis={axis})", "np.angle({a} + 3)", "{a} ** 3", "np.log({a} + 4)",
)  # fmt: skip
LOOPS = (
    "{new} = {a} * 1.0\n    for i in range(1, len({new})):\n        {new}[i] += 0.5 * np.tanh({new}[i - 1])",
    "{new} = np.zeros({a}.shape)\n    for i in range(len({a})):\n        {new}[i] = {a}[i] * {a}[i - 1] + {new}[i - 1]",
    "{new} = 0.0\n    for row in {a}:\n        {new} = np.tanh({new} + row * {b})",
    "{new} = ef.scan(lambda c, x: (np.tanh(c + x * 0.5), np.sin(c) * x), {a}[0] * 0.5, {a})[1]",
    "{new} = ef.scan(lambda c, x: (c * x + np.cos(c), c), {a}[0] * 0.5, {a}, reverse=True)[0]",
    "{new} = ef.scan(lambda c, x: (c + np.mean({b}) * x, c * {s}), {a}[0] * 0.5, {a} * {s})[1]",
    "{new} = ef.fori_loop(0, 3, lambda i, c: np.sin(c) + c * np.mean({b}), {a})",
    "{new} = ef.fori_loop(1, 4, lambda i, c: c * 0.5 + np.cos(c * i), {a})",
    "{new} = ef.cond(np.sum({b}) > 0.1, lambda x: np.sin(x), lambda x: x * x, {a})",
)  # fmt: skip
WRITES = (
    "{a}[{key}] = {s}", "{a}[{key}] = {b}", "{a}[{key}] += {b}", "{a}[{key}] *= {b}", "{a}[{key}] -= {s} * {b}",
    "{a} += {b}", "{a} *= np.cos({b})", "{a} /= {b} * {b} + 1", "{a}[...] = np.tanh({b})", "{a}[1:] = {a}[:-1] * {s}",
    "{a}[{i}] = np.sin({a}[{j}])", "{a}[:-1] += {a}[1:] ** 2", "{a}[{a} > 0.3] *= {s}", "{a}[{a} < 0] = {s}",
    "{a}[[0, -1]] = {b}", "{a}[[0, -1]] *= {b}", "{a}.T[...] = {b} * {s}", "np.multiply({a}, {b}, out={a})",
    "np.copyto({a}, {b} * {s})", "np.add({a}, {b}, out={c})", "{a} **= 2", "{a}[:, 0] += {b}[..., 0]",
    "{a}.fill({s})",
)  # fmt: skip
OF_ROWS = ("{key}", "[{i}]", "for row", "tril")  # templates with these take matrices
NUMBERS = ("2", "0.5", "-1", "1.5", "-0.25")
ELSEWHERE = ("astype", "::-1", "reshape", "broadcast_to", "hypot")  # with other views, or kinks, in other libraries
PLAIN = tuple(template for template in (*SMOOTH, *EXACT) if not any(part in template for part in ELSEWHERE))
VALUES = (PLAIN, PLAIN, PLAIN, PLAIN, VIEWS, VIEWS, GATHERS, GATHERS, MATRICES, COMPLEX, LOOPS)
FUNCTIONS = SimpleNamespace(**{
    name: getattr(eqfuse, name) for name in ("softmax", "gelu", "sigmoid", "scan", "fori_loop", "cond")
})


@dataclass(frozen=True)
class DifferentiableProgram:
    """`text` defines `program`, a function of arrays of the `shapes`; `writes`: does it write into arrays?"""

    seed: int
    text: str
    shapes: tuple[tuple[int, ...], ...]
    writes: bool

    def build(self, numpy: Any = np, functions: Any = FUNCTIONS) -> Callable[..., Any]:
        """The function, with `numpy` as np and `functions` as ef."""
        names = {"np": numpy, "ef": functions}
        exec(self.text, names)
        return names["program"]  # type: ignore[no-any-return]

    @property
    def arguments(self) -> list[np.ndarray]:
        rng = np.random.default_rng(self.seed)
        return [np.asarray(rng.uniform(-1.5, 1.5, shape)) for shape in self.shapes]


def random_differentiable(seed: int, steps: int = 14) -> DifferentiableProgram:
    rng = Random(seed)
    shapes = tuple(rng.choice(SHAPES) for _ in range(rng.choice((1, 2, 2, 3))))
    empty = DifferentiableProgram(seed, "", shapes, False)
    run = _Run(empty.arguments)
    for _ in range(3 * steps):
        if rng.random() < 0.2:
            run.extend(_step(rng, run.values, WRITES), writes=True)
        else:
            run.extend(_step(rng, run.values, rng.choice(VALUES)), writes=False)
        if len(run.lines) == steps:
            break
    computed = [name for name in run.values if name.startswith("v")][-rng.choice((1, 2, 4)) :]
    given = [name for name in run.values if name.startswith("x") and rng.random() < 0.2]
    terms = [_weighted(name, run.values[name]) for name in dict.fromkeys([*given, *computed])] or ["np.sum(x0)"]
    lines = [*run.lines, f"return {' + '.join(terms)}"]
    parameters = ", ".join(f"x{i}" for i in range(len(shapes)))
    text = f"def program({parameters}):\n" + "".join(f"    {line}\n" for line in lines)
    return DifferentiableProgram(seed, text, shapes, run.writes)


def _weighted(name: str, value: Any) -> str:
    """A number in which every element of `name` counts differently."""
    shape = np.shape(value)
    parts = [f"{name}.real", f"{name}.imag * 0.7"] if np.iscomplexobj(value) else [name]
    weights = f"np.cos(np.arange({int(np.prod(shape))}.0)).reshape({shape})"
    return " + ".join(f"np.sum({part} * {weights})" for part in parts)


class _Run:
    """A program under construction, run by NumPy as it grows: what NumPy refuses, or is large, is left out."""

    def __init__(self, arguments: list[np.ndarray]) -> None:
        self._arguments = arguments
        self.lines: list[str] = []
        self.values: dict[str, Any] = {}
        self.writes = False
        self._again()

    def extend(self, line: str | None, writes: bool) -> None:
        if line is None:
            return
        if self._does(line) and all(map(_fits, self.values.values())):
            self.lines.append(line)
            self.writes |= writes or "[i] " in line
        else:
            self._again()

    def _does(self, line: str) -> bool:
        names = {"np": np, "ef": FUNCTIONS, **self.values}  # where a lambda finds them too
        try:
            with np.errstate(all="ignore"):
                exec(line.replace("\n    ", "\n"), names)
        except (*REFUSED, np.linalg.LinAlgError, eqfuse.EqfuseError):
            return False
        self.values = {name: value for name, value in names.items() if name[1:].isdigit()}
        return True

    def _again(self) -> None:
        self.values = {f"x{i}": x.copy() for i, x in enumerate(self._arguments)}
        for line in self.lines:
            self._does(line)


def _fits(value: Any) -> bool:
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype not in (np.float64, np.complex128):
        return False
    if not 0 < value.size <= LARGEST_SIZE or value.ndim > LARGEST_RANK:
        return False
    return bool(np.isfinite(value).all()) and float(np.abs(value).max()) <= LARGEST_VALUE


def _step(rng: Random, values: dict[str, Any], templates: tuple[str, ...]) -> str | None:
    """A line over `values`; None where it has nothing to work on."""
    template = rng.choice(templates)
    chosen = {letter: rng.choice([*values]) for letter in "abc"}
    used = [values[name] for letter, name in chosen.items() if f"{{{letter}}}" in template]
    if templates is not COMPLEX and any(map(np.iscomplexobj, used)):
        return None
    array = np.asarray(values[chosen["a"]])
    if templates is WRITES and min(np.ndim(values[chosen[x]]) for x in ("ac" if "{c}" in template else "a")) == 0:
        return None
    if templates is VIEWS and not array.ndim:  # a scalar, of which there is none
        return None
    if "[0, -1]" in template and len(np.atleast_1d(array)) < 2:  # two places that are one
        return None
    if array.ndim < (2 if any(part in template for part in OF_ROWS) else "{axis}" in template):
        return None
    extent = array.shape[0] if array.ndim else 1
    rank = max(array.ndim, 1)
    text = template.format(
        new=(new := f"v{len(values)}"), **chosen, key=_key(rng, array.shape), axis=rng.randint(-rank, rank - 1),
        k=rng.random() < 0.5, s=rng.choice(NUMBERS), i=rng.randrange(extent), j=rng.randrange(extent) - extent,
    )  # fmt: skip
    return text if templates is WRITES or templates is LOOPS else f"{new} = {text}"


def _key(rng: Random, shape: tuple[int, ...]) -> str:
    """Slices, and a number at most where an axis is left."""
    parts = []
    for axis, extent in enumerate(shape[: rng.randint(1, max(len(shape), 1))]):
        if axis and axis == len(shape) - 1 and rng.random() < 0.3:
            parts.append(str(rng.randrange(extent)))
        else:
            parts.append(rng.choice((":", "1:", ":-1", "::2", ":2")))
    return ", ".join(parts) or "..."
