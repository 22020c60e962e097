"""Random straight-line NumPy programs over all dtypes, with views, aliases, in-place statements, NaN and infinity.

In: a seed, which Hypothesis draws. Out: `Statements`, as source text that can be pasted into a bug report. The programs
of `programs.py` are expressions alone, of small numbers.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import scipy.special
from hypothesis import strategies as st

LARGEST_SIZE, LARGEST_RANK, LARGEST_VALUE = 256, 5, 1e4
DTYPES = (
    *("np.float64", "np.float32") * 3, "np.float16", "np.complex128", "np.complex64", "np.bool_", "np.int8", "np.int16",
    "np.int32", *("np.int64",) * 2, "np.uint8", "np.uint16", "np.uint32", "np.uint64",
)  # fmt: skip
SHAPES = ((), (0,), (1,), (3,), (4,), (1, 3), (3, 1), (2, 3), (3, 3), (2, 0), (2, 3, 2), (1, 2, 1, 3))
SCALARS = ("2", "-1", "0", "1", "3", "0.5", "-2.5", "True", "1.5", "np.float32(0.25)", "np.int8(3)", "2j")
TAME, WILD = "0, 1, 2, 3, -1, -2, 0.5, -1.5", "0, -0.0, 1, 2, -1, -3, 0.5, 1e3, -1e4, np.inf, -np.inf, np.nan"

# {n}: a new name; {a}, {b}, {c}: earlier values; {m}: a mask; {axis}: an axis of {a}; {k}: keepdims; {s}: a scalar;
# {key}: an index of {a}; {dtype}; {i}: a place along {a}'s first axis
ELEMENTWISE = (
    *(f"np.{name}({{a}})" for name in (
        "negative", "positive", "absolute", "sign", "square", "sqrt", "cbrt", "reciprocal", "exp", "exp2", "expm1",
        "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
        "arcsinh", "arccosh", "arctanh", "floor", "ceil", "trunc", "rint", "fabs", "signbit", "isnan", "isinf",
        "isfinite", "logical_not", "invert", "conjugate", "deg2rad", "degrees", "real", "imag", "angle", "nan_to_num",
        "sinc", "fix", "round", "bitwise_count", "i0",
    )),
    *(f"np.{name}({{a}}, {{b}})" for name in (
        "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "power", "float_power",
        "maximum", "minimum", "fmax", "fmin", "hypot", "arctan2", "copysign", "logaddexp", "logaddexp2", "heaviside",
        "greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "logical_and", "logical_or",
        "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm", "isclose",
    )),
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / {b}", "{a} // {b}", "{a} % {b}", "{a} ** 2", "-{a}", "abs({a})",
    "{a} + {s}", "{s} - {a}", "{a} * {s}", "{a} / {s}", "{s} / {a}", "{a} // {s}", "{a} % {s}", "{a} ** {s}",
    "{a} < {b}", "{a} >= {s}", "{a} == {b}", "{a} != {s}", "{a} & {b}", "{a} | {b}", "{a} ^ {b}", "~{a}",
    "{a} << ({b} & 3)", "{a} >> ({b} & 3)", "np.where({m}, {a}, {b})", "np.where({m}, {a}, {s})",
    "np.clip({a}, -1, 2)", "np.select([{m}, {a} == {s}], [{a}, {b}], {s})", "scipy.special.erf({a})",
    "scipy.special.expit({a})", "np.divmod({a}, {b})[1]", "np.modf({a})[0]", "np.multiply({a}, {b}, dtype={dtype})",
)  # fmt: skip
REDUCTIONS = (
    *(f"{{a}}.{name}(axis={{axis}}, keepdims={{k}})" for name in (
        "sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "argmax", "argmin"
    )),
    *(f"np.{name}({{a}})" for name in ("sum", "mean", "max", "prod", "std", "count_nonzero", "ptp", "median", "ravel")),
    "{a}.std(axis={axis}, ddof=1)", "np.sum({a}, axis={axis}, dtype={dtype})", "np.cumsum({a}, axis={axis})",
    "np.cumprod({a}, axis={axis})", "np.diff({a}, axis={axis})", "np.count_nonzero({a}, axis={axis})",
    "np.sort({a}, axis={axis})", "np.median({a}, axis={axis})", "np.nansum({a}, axis={axis})",
    "np.ptp({a}, axis={axis})",
    "np.linalg.norm({a}, axis={axis})", "np.average({a}, axis={axis})", "np.maximum.reduce({a}, axis={axis})",
    "np.add.accumulate({a}, axis={axis})", "np.sum({a}, axis={axis}, where={m})", "np.max({a}, axis={axis}, initial=1)",
    "np.logical_and.reduce({a}, axis={axis})",
)  # fmt: skip
VIEWS = (
    "{a}", "{a}.T", "{a}[{key}]", "{a}[{key}]", "{a}[{key}]", "{a}.reshape(-1)", "{a}[..., None]", "{a}[None]",
    "{a}[::-1]", "{a}[..., ::2]", "{a}[1:]", "{a}[..., :-1]", "np.swapaxes({a}, 0, -1)", "{a}.real", "{a}.imag",
    "np.squeeze({a})", "{a}.ravel()", "np.moveaxis({a}, {axis}, 0)", "np.atleast_2d({a})", "{a}.diagonal()",
    "np.broadcast_to({a}, (2, *{a}.shape))", "np.expand_dims({a}, {axis})", "np.flip({a}, {axis})",
    "np.split({a}, [1], axis={axis})[0]", "np.asarray({a})",
)  # fmt: skip
COPIES = (
    "{a}.copy()", "{a}.flatten()", "np.array({a})", "np.concatenate([{a}, {b}], axis={axis})",
    "np.stack([{a}, {a}], axis={axis})", "np.pad({a}, 1)", "np.roll({a}, 1, axis={axis})", "np.tile({a}, 2)",
    "np.repeat({a}, 2, axis={axis})", "np.take({a}, [0, 0, -1], axis={axis})", "{a}[np.array([0, -1, 0])]",
    "np.tril({a})", "np.rot90({a})", "{a} @ {b}", "{a}.T @ {b}", "np.dot({a}, {b})", "np.outer({a}, {b})",
    "np.inner({a}, {b})", "np.einsum('...i,...i->...', {a}, {b})", "np.einsum('ij->ji', {a})", "np.zeros_like({a})",
    "np.zeros({a}.shape, {dtype})", "np.full({a}.shape, {s})", "np.ones((2, 3), {dtype})",
    "np.arange(3, dtype={dtype})",
    "np.eye(3, dtype={dtype})", "np.linspace(0, 1, 3)", "np.stack([row * 2 for row in {a}])", "{a}.astype({dtype})",
    "np.array([{a}, {b}])", "np.diag({a})", "np.trace({a})", "np.vstack(({a}, {b}))", "np.kron({a}, {b})",
    "np.take_along_axis({a}, np.argsort({a}, axis={axis}), axis={axis})", "np.searchsorted([0, 1, 2], {a})",
)  # fmt: skip
IN_PLACE = (
    "{a} += {b}", "{a} -= {s}", "{a} *= {b}", "{a} /= 2", "{a} //= 2", "{a} %= 3", "{a} **= 2", "{a} |= {b}",
    "{a} &= {b}", "{a} ^= {b}", "{a} <<= 1", "{a}[{key}] = {s}", "{a}[{key}] = {b}", "{a}[{key}] += {s}",
    "{a}[{key}] *= {b}", "{a}[...] = {b}", "{a}[{m}] = {s}", "{a}[{m}] += 1", "{a}[{a} > 1] = 1",
    "{a}[[0, -1]] = {s}", "{a}[1:] += {a}[:-1]", "{a}[::-1] = {a}", "np.add({a}, {b}, out={c})",
    "np.multiply({a}, {s}, out={a})", "np.negative({a}, out={c}, where={m})", "np.exp({a}, out={c})",
    "np.clip({a}, 0, 1, out={a})", "np.copyto({a}, {b})", "np.copyto({a}, {s}, where={m})",
    "np.add.at({a}, [0, 0, -1], 1)", "np.cumsum({a}, axis={axis}, out={a})", "np.sum({a}, axis=0, out={c})",
    "{a}.T[...] = {b}", "for i in range(len({a})):\n        {a}[i] += i", "np.fill_diagonal({a}, {s})",
    "np.put({a}, [0, -1], {s})", "{a}.sort()", "{a}[{key}], {a}[0] = {s}, {a}[-1]",
)  # fmt: skip
REFUSED = (ValueError, TypeError, IndexError, OverflowError, AttributeError, ZeroDivisionError, np.linalg.LinAlgError)


@dataclass(frozen=True)
class Statements:
    """`definition` defines the function `program`; `arguments` is an expression of its arguments."""

    definition: str
    arguments: str

    def build(self, real: str | None = None, complex: str | None = None) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function and new arguments; with other dtypes for the floating and the complex ones if given."""
        texts = [self.definition, self.arguments]
        if real is not None:
            texts = [re.sub(r"np\.float\d+", f"np.{real}", text) for text in texts]
            texts = [re.sub(r"np\.complex\d+", f"np.{complex}", text) for text in texts]
        names: dict[str, Any] = {"np": np, "scipy": scipy}
        exec(texts[0], names)
        return names["program"], eval(texts[1], names)

    @property
    def reproducer(self) -> str:
        """A test that fails where eqfuse and NumPy differ."""
        body = self.definition.replace("\n", "\n    ")
        return (
            "def test_this_program_gives_numpys_answer():\n    import scipy.special\n\n"
            f"    {body.strip()}\n\n    def arguments():\n        return {self.arguments}\n\n"
            "    given, changed = arguments(), arguments()\n"
            "    with np.errstate(all='ignore'):\n        wanted, got = program(*given), ef.jit(program)(*changed)\n"
            "    for g, w in zip((*got, *changed), (*wanted, *given), strict=True):\n"
            "        assert (g.dtype, g.shape) == (w.dtype, w.shape)\n"
            "        np.testing.assert_allclose(g, w, rtol=1e-3, atol=1e-3)\n"
        )


def statements(steps: int = 12, wild: bool = True) -> st.SearchStrategy[Statements]:
    """Programs of up to three arguments; unless `wild`, of finite numbers that stay small.

    Hypothesis draws a seed alone: it repeats itself where it draws every word of a program.
    """
    return st.integers(0, 2**64 - 1).map(lambda seed: random_statements(seed, steps, wild))


def random_statements(seed: int, steps: int, wild: bool = True) -> Statements:
    rng = Random(seed)
    inputs = [f"x{i}" for i in range(rng.choice((1, 2, 2, 3)))]
    given = f"({', '.join(_argument(rng, wild) for _ in inputs)},)"
    lines: list[str] = []
    values = _run(inputs, lines, given)
    assert values is not None
    for _ in range(3 * steps):
        line = _statement(rng, values, f"v{len(lines)}")
        after = None if line is None else _run(inputs, [*lines, line], given)
        if line is not None and after is not None and all(_fits(v, wild) for v in after.values()):
            lines.append(line)
            values = after
        if len(lines) == steps:
            break
    computed = [name for name in values if name not in inputs]
    returned = [*inputs, *computed[-rng.choice((1, 2, 16)) :]]
    return Statements(_definition(inputs, [*lines, f"return ({', '.join(returned)},)"]), given)


def smallest(program: Statements, fails: Callable[[Statements], bool]) -> Statements:
    """`program` without the lines and results that it fails without."""
    head, *lines, last = program.definition.rstrip().split("\n")
    results = last.strip().removeprefix("return (").removesuffix(",)").split(", ")

    def assembled(lines: list[str], results: list[str]) -> Statements:
        return Statements("\n".join([head, *lines, f"    return ({', '.join(results)},)\n"]), program.arguments)

    def still(lines: list[str], results: list[str]) -> bool:
        try:
            return bool(results) and fails(assembled(lines, results))
        except (NameError, SyntaxError):
            return False

    for kept in (results, lines):
        for i in reversed(range(len(kept))):
            part = kept.pop(i)
            if part.startswith("x") or not still(lines, results):  # the arguments stay results
                kept.insert(i, part)
    return assembled(lines, results)


def _definition(inputs: list[str], lines: list[str]) -> str:
    return f"def program({', '.join(inputs)}):\n" + "".join(f"    {line}\n" for line in lines)


def _argument(rng: Random, wild: bool) -> str:
    dtype, shape, seed = rng.choice(DTYPES), rng.choice(SHAPES), rng.randint(0, 99)
    pool = (
        (WILD if wild and rng.random() < 0.5 else TAME) if "float" in dtype or "complex" in dtype else "0, 1, 2, 3, 5"
    )
    if dtype.startswith("np.int"):
        pool += ", -1, -4"
    text = f"np.random.default_rng({seed}).choice(np.array([{pool}]), {shape}).astype({dtype})"
    if "complex" in dtype:
        text = f"({text} * (1 - 0.5j)).astype({dtype})"
    if not shape:
        return f"np.array({text})"
    layout = rng.choice(("", "", "", "[::-1]", ".copy('F')", ".repeat(2, 0)[::2]", "[..., ::-1]"))
    return text + layout


def _run(inputs: list[str], lines: list[str], arguments: str) -> dict[str, Any] | None:
    """The values by name after `lines`, or None where NumPy refuses."""
    names: dict[str, Any] = {"np": np, "scipy": scipy}
    exec(_definition(inputs, [*lines, "return locals()"]), names)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        try:
            values: dict[str, Any] = names["program"](*eval(arguments, names))
        except (*REFUSED, np.exceptions.ComplexWarning):
            return None
    values.pop("i", None)
    return values


def _statement(rng: Random, values: dict[str, Any], new: str) -> str | None:
    """One statement over `values`; None where it has nothing to work on."""
    templates = rng.choice((ELEMENTWISE, ELEMENTWISE, REDUCTIONS, VIEWS, COPIES, IN_PLACE, IN_PLACE))
    template = rng.choice(templates)
    names = list(values)
    chosen = {letter: rng.choice(names) for letter in "abc"}
    array = np.asarray(values[chosen["a"]])
    if "astype" in template or "dtype=" in template:
        dtype = rng.choice(DTYPES)
        if not _converts(array, dtype):
            return None
        chosen["dtype"] = dtype
    else:
        chosen["dtype"] = rng.choice(DTYPES)
    written = np.asarray(values[chosen["b"]])
    if templates is IN_PLACE and "= {b}" in template and not _converts(written, array.dtype.name):
        return None
    masks = [name for name in names if np.asarray(values[name]).dtype == np.bool_ and np.ndim(values[name])]
    mask = f"{chosen['a']} > 0" if not masks or rng.random() < 0.5 else rng.choice(masks)
    rank = max(array.ndim, 1)
    text = template.format(
        **chosen,
        m=mask,
        s=rng.choice(SCALARS),
        k=rng.random() < 0.5,
        axis=rng.randint(-rank, rank - 1),
        key=a_key(rng, array.shape),
    )
    return text if templates is IN_PLACE else f"{new} = {text}"


def _converts(array: np.ndarray, dtype: str) -> bool:
    """Whether the cast to `dtype` is defined: C leaves that of large and non-finite numbers to integers open."""
    if array.dtype.kind in "fc" and "float" not in dtype and "complex" not in dtype:
        limit = 0 if "uint" in dtype else -100
        return array.dtype.kind == "f" and bool(np.isfinite(array).all() and ((array >= limit) & (array < 100)).all())
    return True


def a_key(rng: Random, shape: tuple[int, ...]) -> str:
    """An index expression for an array of `shape`: numbers, slices of any step, Ellipsis, newaxis, integer lists."""
    parts = []
    for extent in shape[: rng.randint(0, len(shape))]:
        kind = rng.choice(("slice", "slice", "slice", "number", "all", "list"))
        if kind == "number" and extent:
            parts.append(str(rng.randint(-extent, extent - 1)))
        elif kind == "list" and extent:
            parts.append(str([rng.randint(-extent, extent - 1) for _ in range(rng.randint(1, 3))]))
        elif kind == "slice":
            start, stop = (rng.choice(("", "0", "1", "-1", "-2", "2")) for _ in range(2))
            parts.append(f"{start}:{stop}:{rng.choice(('', '', '-1', '2', '-2'))}")
        else:
            parts.append(":")
    if rng.randint(0, 4) == 0:
        parts.insert(rng.randint(0, len(parts)), "None")
    if not parts or rng.randint(0, 4) == 0:
        parts.insert(rng.randint(0, len(parts)), "...")
    return ", ".join(parts)


def _fits(value: Any, wild: bool) -> bool:
    if not isinstance(value, (np.ndarray, np.generic)) or value.dtype.kind not in "biufc" or value.dtype.itemsize > 16:
        return False
    if value.dtype in (np.longdouble, np.clongdouble) or value.size > LARGEST_SIZE or value.ndim > LARGEST_RANK:
        return False
    if wild or value.dtype.kind == "b":
        return True
    return bool(np.isfinite(value).all()) and float(np.abs(value).max(initial=0)) <= LARGEST_VALUE
