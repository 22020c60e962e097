"""Random straight-line NumPy programs about memory: views, copies in every order, aliases, writes that overlap.

In: a seed. Out: `MemoryProgram`, as text that runs by itself, whose arguments are views, of every layout, of arrays
outside. All numbers are small and whole, so that no order of sums and no law changes an answer: the programs of
`statements.py` are about values.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple

import numpy as np

from tests.support.statements import REFUSED, a_key

LARGEST_SIZE, LARGEST_RANK = 120, 5
DTYPES = (
    *("np.float64",) * 5, *("np.float32",) * 2, "np.float16", "np.complex128", "np.complex64", "np.bool_", "np.int8",
    "np.int16", "np.int32", *("np.int64",) * 2, "np.uint8", "np.uint16", "np.uint32", "np.uint64",
)  # fmt: skip
SHAPES = ((), (0,), (1,), (4,), (7,), (1, 4), (4, 1), (4, 3), (3, 3), (4, 6), (2, 0), (2, 4, 3), (1, 3, 1, 2), (3, 2,
2))
LARGEST_VALUES = {"f2": 30, "f4": 10_000, "c8": 1_000}  # sums of so large numbers are exact; others: a million

# {a}, {b}, {c}: earlier values; {key}, {more}: indices of {a}; {axis}: an axis of {a}; {s}: a number; {dtype}; {order};
# {shape}: of as many elements as {a}; {m}: a mask of its shape; {n}: an extent
VIEWS = (
    *("{a}[{key}]",) * 6, *("{a}.reshape({shape})",) * 3, "{a}.reshape({shape}, order={order})", "{a}", "{a}.T",
    "{a}.T",
    "{a}.ravel()", "{a}.ravel({order})", "np.ravel({a}, {order})", "{a}[::-1]", "{a}[..., ::2]", "{a}[1:]",
    "{a}[:, None]",
    "np.swapaxes({a}, 0, -1)", "np.moveaxis({a}, {axis}, 0)", "np.squeeze({a})", "np.flip({a}, {axis})", "{a}.view()",
    "np.atleast_1d({a})", "np.atleast_2d({a})", "np.atleast_3d({a})", "np.expand_dims({a}, {axis})", "np.rot90({a})",
    "np.split({a}, [1], axis={axis})[1]", "np.array_split({a}, 2, axis={axis})[0]", "{a}.real", "{a}.imag",
    "{a}.diagonal()", "np.diagonal({a}, 1)", "np.broadcast_to({a}, (2, *{a}.shape))",
    "np.broadcast_arrays({a}, {b})[0]",
    "np.einsum('ij->ji', {a})", "np.einsum('ii->i', {a})", "np.asarray({a})", "np.asarray({a}, order={order})",
    "np.asanyarray({a})", "np.ascontiguousarray({a})", "np.asfortranarray({a})", "np.require({a}, None, {order2})",
    "np.array({a}, copy=None, order={order})", "{a}.astype({a}.dtype, {order}, copy=False)",
    "np.ascontiguousarray({a}.T)",
    "np.asarray({a}, {dtype})", "np.lib.stride_tricks.sliding_window_view({a}, 2, {axis})", "{a}[{key}][{axis}:]",
    "np.real({a})", "np.unstack({a}, axis={axis})[0]", "{a}.squeeze()", "np.transpose({a})", "np.reshape({a}, {shape})",
)  # fmt: skip
COPIES = (
    "{a}.copy()", "{a}.copy({order})", "np.copy({a})", "np.array({a})", "np.array({a}, order={order})",
    "{a}.flatten({order})",
    "{a}.astype({dtype})", "{a}.astype({dtype}, {order})", "np.zeros_like({a})",
    "np.full_like({a}, {s}, order={order})",
    "np.zeros({a}.shape, {dtype})", "np.zeros({a}.shape, {dtype}, {order2})", "np.full({a}.shape, {s})", "np.ones({n})",
    "np.empty_like({a})[:0]", "{a}[[0, -1]]", "{a}[..., [0, 0]]", "np.take({a}, [0, -1], axis={axis})",
    "np.concatenate([{a}, {b}])", "np.stack([{a}, {a}], axis={axis})", "np.roll({a}, 1, axis={axis})",
    "np.tile({a}, 2)",
    "np.repeat({a}, 2, axis={axis})", "np.pad({a}, 1)", "np.array([{a}, {a}])", "np.arange({n}, dtype={dtype})",
    "{a}.reshape({shape}, copy=True)", "np.where({m}, {a}, {b})", "np.where({a} > 1, {a}, 0)", "np.eye({n})",
    "{a}.take([0])",
    "np.sort({a}, axis={axis})", "np.diag({a})", "np.tril({a})",

)  # fmt: skip
COMPUTED = (
    "{a} + {b}", "{a} - {b}", "{a} * 2", "-{a}", "abs({a})", "{a} + 1", "{a} * {s}", "{a} == {b}", "{a} > 0",
    "~({a} > 0)",
    "np.maximum({a}, {b})", "np.minimum({a}, 3)", "np.clip({a}, -2, 2)", "{a}.sum()", "{a}.sum(axis={axis})",
    "{a}[{key}] + 1",
    "{a}.max(axis={axis}, keepdims=True)", "np.cumsum({a}, axis={axis})", "{a}.T + {a}", "{a}[::2] * 2", "{a}[0]",
    "{a}[()]",
    "{a}[1:] - {a}[:-1]", "{a} @ {b}", "np.add.reduce({a}, axis={axis})", "np.sign({a})", "np.square({a}[{key}])",
    "{a}.any(axis={axis})", "np.count_nonzero({a})", "{a}.argmax()", "{a} % 3", "{a} // 2", "np.multiply({a}, {b})",
)  # fmt: skip
WRITES = (
    "{a}[{key}] = {s}", "{a}[{key}] = {b}", "{a}[{key}] = {b}[{key}]", "{a}[{key}] += {s}", "{a}[{key}] *= 2",
    "{a} += {b}",
    "{a}[{key}] -= {b}", "{a} += 1", "{a} *= -1", "{a} -= {a}[0]", "{a}[...] = {b}", "{a}[{key}] = {a}[{more}]",
    "{a}[{key}] = -{a}[{more}]", "{a}[{key}] += {a}[{more}]", "{a}[::2] = abs({a}[::2]) + 1", "{a}[1::2] = -{a}[1::2]",
    "{a}[1:] = {a}[:-1]", "{a}[:-1] += {a}[1:]", "{a}[::-1] = {a}", "{a}[...] = {a}[::-1]",
    "{a}[:, ::2] = {a}[:, ::2] * 2",
    "{a}[1::3] *= 2", "{a}[::2], {a}[1::2] = {s}, {a}[::2] + 1", "{a}.T[...] = {b}", "{a}.T[{axis}:] = {s}",
    "{a} += {a}.T",
    "{a}[{m}] = {s}", "{a}[{m}] += 1", "{a}[{a} > 1] = 1", "{a}[{m}] *= {a}[{m}]", "{a}[[0, -1]] = {s}",
    "{a}[[0, 0]] += 1",
    "{a}[..., [0, -1]] = {a}[..., [-1, 0]]", "np.add.at({a}, [0, 0, -1], 1)", "{a}.reshape(-1)[::2] = {s}",
    "{a}.reshape({shape})[{axis}:] += 1", "{a}.ravel()[1:] = {s}", "{a}.ravel({order})[0] = {s}", "{a}.flat[::2] = {s}",
    "{a}.flat[[0, -1]] = [5, 6]", "{a}.flat = {b} + 0", "{a}.fill({s})", "{a}.sort()", "{a}.sort(axis={axis})",
    "{a}.put([0, -1], {s})", "np.put({a}, [0, 2], [{s}, 4])", "np.copyto({a}, {b})", "np.copyto({a}, {s}, where={m})",
    "np.putmask({a}, {m}, {b})", "np.place({a}, {m}, [1, 2])", "np.fill_diagonal({a}, {s})",
    "np.add({a}, {b}, out={c})",
    # no np.negative in place: NumPy 2.4 gives wrong values where elements of 4 or 8 bytes lie 16 or 64 bytes apart
    "np.square({a}, out={a})", "np.multiply({a}, 2, out={c}, where={m})", "np.abs({a}[{key}], out={c})",
    "np.sum({a}, axis=0, out={c})", "np.cumsum({a}, axis={axis}, out={a})", "np.clip({a}, 0, 1, out={a})",
    "np.put_along_axis({a}, np.argsort({a}, axis={axis}, kind='stable'), {s}, {axis})", "{a}.real = {s}",
    "{a}.imag[...] = {s}",
    "np.ascontiguousarray({a})[...] = {s}", "np.asfortranarray({a})[..., 0] = {s}",
    "np.asarray({a}, order={order})[0] = {s}",
    "np.array({a}, copy=None, order={order})[0] = {s}", "{a}.astype({a}.dtype, {order}, copy=False)[0] = {s}",
    "for i in range(len({a})):\n        {a}[i] = {a}[i - 1]", "for row in {a}:\n        row += 1",
    "for i in range(1, len({a}), 2):\n        {a}[i:] -= {a}[i - 1]", "np.nan_to_num({a}, copy=False)",
    "np.swapaxes({a}, 0, -1)[0] = {s}", "np.einsum('ii->i', {a})[...] = {s}", "{a}[...], {c}[...] = {c} + 1, {a} + 1",
    "np.split({a}, 2)[0][...] = {s}", "{a}.diagonal()[...] = {s}", "np.squeeze({a})[0] = {s}",
    "np.flip({a}, {axis})[0] = {s}",
)  # fmt: skip
NUMBERS = ("2", "-1", "0", "1", "3", "True", "np.int8(3)", "np.float32(2)", "5", "2j")


class ArgumentLayout(NamedTuple):
    """How an argument lies in the array outside that it is a view of: that one's shape, and the view of it, `B`."""

    shape: Callable[[tuple[int, ...]], tuple[int, ...]]
    view: str
    least_rank: int = 0


def _same(shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape


def _larger(by: int, plus: int = 0) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    return lambda shape: tuple(by * n + plus for n in shape)


LAYOUTS = (
    *(ArgumentLayout(_same, "B"),) * 4,
    ArgumentLayout(_same, "B.copy('F')"), ArgumentLayout(_same, "B.copy('F')"),
    ArgumentLayout(lambda shape: shape[::-1], "B.T", 2),
    ArgumentLayout(lambda shape: (2 * shape[0], *shape[1:]), "B[::2]", 1),
    ArgumentLayout(lambda shape: (*shape[:-1], 2 * shape[-1]), "B[..., 1::2]", 1),
    ArgumentLayout(_larger(2), "B[tuple([slice(None, None, 2)] * B.ndim)]", 1),
    ArgumentLayout(_same, "B[::-1]", 1), ArgumentLayout(_same, "B[..., ::-1]", 1),
    ArgumentLayout(_larger(1, 2), "B[tuple([slice(1, -1)] * B.ndim)]", 1),
    ArgumentLayout(lambda shape: (*shape[::-1][:-1], 2 * shape[0]), "B.T[::2]", 2),
    ArgumentLayout(lambda shape: (shape[1], shape[0], *shape[2:]), "np.swapaxes(B, 0, 1)", 2),
    ArgumentLayout(_same, "locked(B)"),
    ArgumentLayout(lambda shape: (*shape[:-1], 1), "np.broadcast_to(B, {shape})", 1),
)  # fmt: skip


@dataclass(frozen=True)
class MemoryProgram:
    """`arrays`: an expression per array outside. `views`: one per argument, of these arrays `b0`, `b1`, … `lines`: the
    statements of the function, and `results` the names that it returns."""

    arrays: tuple[str, ...]
    views: tuple[str, ...]
    lines: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def text(self) -> str:
        """`arrays()`, `views(...)` and `program(...)`."""
        outside = ", ".join(f"b{i}" for i in range(len(self.arrays)))
        given = ", ".join(f"x{i}" for i in range(len(self.views)))
        body = "".join(f"    {line}\n" for line in (*self.lines, f"return ({', '.join(self.results)},)"))
        return (
            "import numpy as np\n\n\ndef locked(a):\n    a.flags.writeable = False\n    return a\n\n\n"
            f"def arrays():\n    return [{', '.join(self.arrays)}]\n\n\n"
            f"def views({outside}):\n    return ({', '.join(self.views)},)\n\n\ndef program({given}):\n{body}"
        )

    def build(self) -> tuple[Callable[..., Any], Callable[[], tuple[list[np.ndarray], tuple[Any, ...]]]]:
        """The function, and what makes the arrays outside and the arguments anew."""
        names: dict[str, Any] = {}
        exec(self.text, names)

        def arguments() -> tuple[list[np.ndarray], tuple[Any, ...]]:
            arrays = names["arrays"]()
            return arrays, names["views"](*arrays)

        return names["program"], arguments

    def reproducer(self, options: str) -> str:
        """A script that fails where eqfuse and NumPy differ."""
        return (
            f"import eqfuse as ef\n{self.text}\n\n"
            "outside, changed = arrays(), arrays()\n"
            f"wanted, got = program(*views(*outside)), ef.jit({options})(program)(*views(*changed))\n"
            "for g, w in zip([*got, *changed], [*wanted, *outside], strict=True):\n"
            "    assert (type(g), g.dtype, g.shape) == (type(w), w.dtype, w.shape)\n"
            "    np.testing.assert_array_equal(g, w)\n"
        )


def random_memory_program(seed: int, steps: int = 7) -> MemoryProgram:
    rng = Random(seed)
    arrays, views = zip(*(_argument(rng, i) for i in range(rng.choice((1, 1, 2, 2, 3)))), strict=True)
    if rng.random() < 0.15:  # two arguments of one array
        views = (*views[:-1], rng.choice(("b0[:1]", "b0[1:]", "b0.T", "b0[::2]")))
    program = MemoryProgram(arrays, views, (), ())
    run = _Run(program)
    if not run.values:
        return random_memory_program(rng.getrandbits(60), steps)
    for _ in range(4 * steps):
        run.extend(_statement(rng, run.values, f"v{len(run.lines)}"))
        if len(run.lines) == steps:
            break
    computed = [name for name in run.values if name.startswith("v")][-rng.choice((1, 3, 16)) :]
    given = [name for name in run.values if name.startswith("x") and rng.random() < 0.4]
    return replace(program, lines=tuple(run.lines), results=tuple(dict.fromkeys([*given, *computed])) or ("x0",))


class _Run:
    """A program under construction, run by NumPy as it grows: a statement that NumPy refuses is left out."""

    def __init__(self, program: MemoryProgram) -> None:
        self.program, self.lines = program, list[str]()
        self.values: dict[str, Any] = {}
        self._again()

    def extend(self, line: str | None) -> None:
        if line is None:
            return
        if self._does(line) and all(map(_fits, self.values.values())):
            self.lines.append(line)
        else:
            self._again()

    def _does(self, line: str) -> bool:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            try:
                exec(line, {"np": np}, self.values)
            except (*REFUSED, np.exceptions.ComplexWarning):
                return False
        for name in ("i", "row"):
            self.values.pop(name, None)
        return True

    def _again(self) -> None:
        _, arguments = replace(self.program, results=("x0",)).build()
        try:
            self.values = {f"x{i}": view for i, view in enumerate(arguments()[1])}
        except REFUSED:
            self.values = {}
        for line in self.lines:
            self._does(line)


def _argument(rng: Random, i: int) -> tuple[str, str]:
    dtype, shape = rng.choice(DTYPES), rng.choice(SHAPES)
    layout = rng.choice([lay for lay in LAYOUTS if lay.least_rank <= len(shape)])
    whole = layout.shape(shape)
    size = int(np.prod(whole))
    numbers = f"np.arange({size}) * {rng.choice((3, 5, 7))} % {rng.choice((5, 7, 11))}"
    if "uint" not in dtype and "bool" not in dtype:
        numbers += " - 3"
    text = f"({numbers}).reshape({whole}).astype({dtype})"
    if "complex" in dtype:
        text = f"({text} * (1 + 2j)).astype({dtype})"
    view = layout.view.format(shape=shape)
    if view == "B.copy('F')":
        return f"{text}.copy('F')", f"b{i}"
    return text, re.sub(r"\bB\b", f"b{i}", view)


def _statement(rng: Random, values: dict[str, Any], new: str) -> str | None:
    """One statement over `values`; None where it has nothing to work on."""
    templates = rng.choice((VIEWS, VIEWS, COPIES, COMPUTED, WRITES, WRITES, WRITES))
    template = rng.choice(templates)
    names = list(values)
    a, b, c = rng.choice(names), rng.choice(names), rng.choice(names)
    array = np.asarray(values[a])
    if "'ii->" in template and len(set(array.shape)) != 1:  # NumPy reads beyond an array that is not square
        return None
    dtype = rng.choice(DTYPES)
    if "{dtype}" in template and "{a}" in template and not _converts(array, np.dtype(eval(dtype, {"np": np}))):
        return None
    if templates is WRITES and not all(_converts(np.asarray(values[n]), np.asarray(values[m]).dtype)
                                       for n in (a, b, c) for m in (a, c)):  # fmt: skip
        return None
    masks = [n for n in names if np.shape(values[n]) == array.shape and np.asarray(values[n]).dtype == bool]
    rank = max(array.ndim, 1)
    text = template.format(
        a=a, b=b, c=c,
        key=a_key(rng, array.shape), more=a_key(rng, array.shape), axis=rng.randint(-rank, rank - 1),
        s=rng.choice(NUMBERS), dtype=dtype, order=repr(rng.choice("CFAK")), order2=repr(rng.choice("CF")),
        shape=_shape(rng, array.size), m=rng.choice([f"{a} > 0", *masks]), n=rng.randint(1, 4),
    )  # fmt: skip
    return text if templates is WRITES else f"{new} = {text}"


def _shape(rng: Random, size: int) -> tuple[int, ...] | int:
    """A shape of `size` elements."""
    if size == 0 or rng.random() < 0.3:
        return -1
    extents: list[int] = []
    while size > 1 and len(extents) < 3:
        extents.append(rng.choice([n for n in range(1, size + 1) if size % n == 0]))
        size //= extents[-1]
    return (*extents, size)


def _converts(array: np.ndarray, dtype: np.dtype) -> bool:
    """Whether the cast to `dtype` is defined: C leaves that of negative floating numbers to unsigned ones open."""
    if array.dtype.kind in "fc" and dtype.kind in "ui":
        limit = 0 if dtype.kind == "u" else -100
        return array.dtype.kind == "f" and bool(((array >= limit) & (array < 100)).all())
    return True


def _fits(value: Any) -> bool:
    if not isinstance(value, (np.ndarray, np.generic)):
        return type(value) in (bool, int, float, complex)
    kind = value.dtype.kind
    if kind not in "biufc" or value.dtype.itemsize > 16 or value.size > LARGEST_SIZE or value.ndim > LARGEST_RANK:
        return False
    if value.dtype.itemsize < 8 and kind in "bui":  # they wrap around as they do everywhere
        return True
    largest = LARGEST_VALUES.get(value.dtype.str[1:], 10**6)
    whole = np.isfinite(value).all() and (kind in "ui" or (value == np.rint(value)).all())
    return bool(whole) and float(np.abs(value).max(initial=0)) <= largest


def smallest(program: MemoryProgram, fails: Callable[[MemoryProgram], bool]) -> MemoryProgram:
    """`program` without the lines and results that it fails without,
    and with plainer arguments where it still fails."""
    for name in ("results", "lines", "results"):
        kept = list(getattr(program, name))
        for i in reversed(range(len(kept))):
            fewer = replace(program, **{name: tuple(kept[:i] + kept[i + 1 :])})
            if (name == "lines" or len(kept) > 1) and fails(fewer):
                program, kept = fewer, kept[:i] + kept[i + 1 :]
    for i, text in enumerate(program.arrays):
        plainer = replace(program, arrays=(*program.arrays[:i], re.sub(r"np\.\w+\)$", "np.float64)", text),
        *program.arrays[i + 1 :]))
        if plainer != program and fails(plainer):
            program = plainer
    return program
