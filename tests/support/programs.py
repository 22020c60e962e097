"""Random NumPy programs, as source text that can be pasted into a bug report.

In: Hypothesis draws. Out: `RandomProgram`s that run without NaN, infinity or large numbers, so that results can be
compared up to rounding. Steps that jump (floor, comparisons, argmax) are taken only on values that no rounding touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from eqfuse import functions as ef

LARGEST_VALUE, LARGEST_SIZE = 1e4, 2048

# {a}, {b}, {c}: earlier values; {axis}: an axis of {a}; {k}: keepdims; {s}: a scalar
SMOOTH = (
    "np.tanh({a})", "np.exp(-np.abs({a}))", "np.sqrt(np.abs({a}) + 0.5)", "np.log(np.abs({a}) + 1)", "np.sin({a})",
    "1 / (1 + np.exp(-{a}))", "{a} * {s}", "{s} * {a}", "{a} + {s}", "{s} - {a}", "{a} / {s}", "{a} ** 2",
    "np.square({a})", "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / (np.abs({b}) + 1)", "{a} * {c} + {b} * {c}",
    "{a} + {b} + {c}", "{a} @ {b}", "{a} @ np.swapaxes({b}, -1, -2)", "{a}.T @ {b}", "({a} @ {b}).T",
    "{a}.sum(axis={axis}, keepdims={k})", "{a}.mean(axis={axis}, keepdims={k})", "{a}.var(axis={axis}, keepdims={k})",
    "{a}.sum()", "np.mean({a})", "ef.softmax({a}, axis={axis})", "ef.gelu({a})", "ef.sigmoid({a})",
    "np.logaddexp({a}, {b})", "np.hypot({a}, {b})", "np.cumsum({a}, axis={axis})",
)  # fmt: skip
EXACT = (
    "-{a}", "np.abs({a})", "np.maximum({a}, 0)", "np.minimum({a}, {b})", "np.maximum({a}, {b})", "np.clip({a}, -1, 1)",
    "{a}.max(axis={axis}, keepdims={k})", "{a}.min(axis={axis}, keepdims={k})", "np.max({a})",
    "{a}.T", "{a}.reshape(-1)", "{a}[..., None]", "{a}[None]", "{a}[..., ::-1]", "{a}[1:]", "{a}[..., :-1]", "{a}[::2]",
    "{a}[..., -1]", "np.concatenate([{a}, {b}], axis={axis})", "np.stack([{a}, {a}])", "np.swapaxes({a}, 0, -1)",
    "np.pad({a}, 1)", "np.take({a}, np.array([0, 0]), axis={axis})", "np.broadcast_to({a}, (2, *{a}.shape))",
    "np.squeeze({a})", "{a}.astype(np.float32)", "{a}.astype(np.float64)", "np.where({a} > {b}, {a}, {b})",
)  # fmt: skip
JUMPING = (
    "np.floor({a})", "np.sign({a})", "np.rint({a})", "{a} > {b}", "{a} == {b}", "{a} <= 0",
    "np.argmax({a}, axis={axis})",
    "np.where({a} > 0, {b}, {c})", "np.logical_and({a}, {b})", "np.any({a} > 0, axis={axis}, keepdims={k})",
    "{a}.astype(np.int32)", "{a}.astype(bool)", "np.floor_divide({a}, 2)", "np.remainder({a}, 2)",
)  # fmt: skip
SCALARS = ("2", "0.5", "-1", "3.0", "1", "np.float32(1.5)")
DTYPES = ("np.float32",) * 5 + ("np.float64",) * 2 + ("np.int64", "np.int32", "np.float16", "bool")
REFUSED = (ValueError, TypeError, IndexError, OverflowError)


@dataclass(frozen=True)
class RandomProgram:
    """`definition` defines the function `program`; `arguments` is an expression of its arguments."""

    definition: str
    arguments: str
    scale: float  # largest absolute value on the way

    def build(self, precise: bool = False) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function and its arguments; in float64 throughout if `precise`."""
        texts = [self.definition, self.arguments]
        if precise:
            texts = [t.replace("np.float32", "np.float64").replace("np.float16", "np.float64") for t in texts]
        names: dict[str, Any] = {"np": np, "ef": ef}
        exec(texts[0], names)
        return names["program"], eval(texts[1], names)

    @property
    def reproducer(self) -> str:
        """A script that shows a difference between eqfuse and NumPy."""
        return (
            f"import numpy as np\nimport eqfuse as ef\n\n{self.definition}\n\narguments = {self.arguments}\n"
            "wanted = program(*arguments)\ngot = ef.compile(program, *arguments)(*arguments)\n"
            "for g, w in zip(got, wanted, strict=True):\n    np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-3)\n"
        )


@st.composite
def programs(draw: st.DrawFn, steps: int = 16) -> RandomProgram:
    """Programs of up to three arguments and `steps` steps."""
    names: dict[str, Any] = {"np": np, "ef": ef}
    exact: dict[str, bool] = {}
    arguments = []
    for i in range(draw(st.integers(1, 3))):
        shape = tuple(draw(st.lists(st.sampled_from((1, 2, 2, 3, 3, 5)), max_size=3)))
        dtype, seed = draw(st.sampled_from(DTYPES)), draw(st.integers(0, 9))
        half = " / 2" if "float" in dtype else ""
        order = draw(st.sampled_from("CF"))
        values = f"np.random.default_rng({seed}).integers(-4, 5, {shape}){half}"
        arguments.append(f"np.array({values}, {dtype}, order={order!r})")
        names[f"x{i}"], exact[f"x{i}"] = eval(arguments[-1], names), True
    lines: list[str] = []
    for _ in range(draw(st.integers(3, steps))):
        step = _step(draw, names, exact)
        if step is None:
            continue
        text, stays_exact = step
        try:
            with np.errstate(all="ignore"):
                value = np.asarray(eval(text, names))
        except REFUSED:
            continue
        if _tame(value):
            name = f"v{len(lines)}"
            names[name], exact[name] = value, stays_exact
            lines.append(f"{name} = {text}")
    outputs = [n for n in list(exact)[-draw(st.integers(1, 3)) :] if n.startswith("v")] or ["x0"]
    body = "".join(f"    {line}\n" for line in [*lines, f"return ({', '.join(outputs)},)"])
    inputs = ", ".join(f"x{i}" for i in range(len(arguments)))
    scale = max([1.0, *(float(np.abs(names[n].astype(np.float64)).max(initial=0)) for n in exact)])
    return RandomProgram(f"def program({inputs}):\n{body}", f"({', '.join(arguments)},)", scale)


def _step(draw: st.DrawFn, names: dict[str, Any], exact: dict[str, bool]) -> tuple[str, bool] | None:
    """One expression over earlier values, and whether its result is free of rounding; None where no value fits."""
    templates = draw(st.sampled_from((SMOOTH, SMOOTH, SMOOTH, EXACT, EXACT, JUMPING)))
    template = draw(st.sampled_from(templates))
    usable = [n for n in exact if exact[n] or templates is not JUMPING]
    if "{axis}" in template:
        usable = [n for n in usable if names[n].ndim]
    if not usable:
        return None
    chosen = {letter: draw(st.sampled_from(usable)) for letter in "abc" if f"{{{letter}}}" in template}
    rank = max(names[chosen["a"]].ndim, 1)
    axis, keepdims, scalar = draw(st.integers(-rank, rank - 1)), draw(st.booleans()), draw(st.sampled_from(SCALARS))
    text = template.format(**chosen, axis=axis, k=keepdims, s=scalar)
    return text, templates is not SMOOTH and all(exact[n] for n in chosen.values())


def _tame(value: np.ndarray) -> bool:
    """Small, finite, and of a usual dtype: bool ** int is int8 for arrays but int64 for NumPy's 0-d scalars."""
    if value.dtype.kind not in "bif" or value.dtype == np.int8 or not 0 < value.size <= LARGEST_SIZE or value.ndim > 4:
        return False
    return bool(np.isfinite(value).all()) and float(np.abs(value.astype(np.float64)).max()) <= LARGEST_VALUE
