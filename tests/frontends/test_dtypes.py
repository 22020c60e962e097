"""Every dtype a tensor may have: NumPy's promotion, arithmetic and refusals, traced and in whole programs."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.exceptions import ComplexWarning
from numpy.testing.overrides import get_overridable_numpy_ufuncs

import eqfuse as ef
from eqfuse import dtypes
from eqfuse.errors import EqfuseError, ShapeError, TraceError, UnsupportedOp
from eqfuse.frontends.numpy.registry import TRACED_UFUNCS
from eqfuse.frontends.numpy.trace import trace
from eqfuse.ir.evaluate import meaning
from eqfuse.ir.text import parse
from eqfuse.ops.literal import Literal, literal_from_text
from tests.support.drawing import many

EVERY = pytest.mark.parametrize("dtype", dtypes.TENSORS, ids=lambda d: d.name)
COMPLEX = pytest.mark.parametrize("dtype", [np.dtype("c8"), np.dtype("c16")], ids=lambda d: d.name)


def sample(shape: tuple[int, ...], dtype: np.dtype, seed: int = 0) -> np.ndarray:
    """Small half-integers, positive and negative; with the limits of integers, NaN and infinities among them."""
    return _sample(shape, dtype, seed).copy()


@cache
def _sample(shape: tuple[int, ...], dtype: np.dtype, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.integers(-6, 7, shape)
    if dtype.kind == "b":
        return values > 0
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.where(rng.random(shape) < 0.2, rng.choice([limits.min, limits.max], shape), values.astype(dtype))
    odd = rng.choice([np.nan, np.inf, -np.inf, -0.0], shape)
    real = np.where(rng.random(shape) < 0.2, odd, values / 2)
    if dtype.kind != "c":
        return real.astype(dtype)
    whole = np.empty(shape, dtype)
    whole.real, whole.imag = real, rng.integers(-3, 4, shape) / 2
    return whole


def difference(got: Any, wanted: Any, digits: float = 4) -> str | None:
    """How `got` differs from `wanted` in dtype, shape or values (beyond rounding); None when it does not."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return f"{got.dtype}{got.shape}, NumPy gives {wanted.dtype}{wanted.shape}"
    a, b = dtypes.real_parts(got), dtypes.real_parts(wanted)
    if a.tobytes() == b.tobytes():
        return None
    if dtypes.kind(wanted.dtype) in "fc":
        slack = digits * dtypes.epsilon(wanted.dtype)
        if np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=slack, atol=slack, equal_nan=True):
            return None
    return f"{got.tolist()}, NumPy gives {wanted.tolist()}"


def misfit(fn: Callable[..., Any], *args: Any) -> str | None:
    """What is wrong with `fn` traced; where NumPy refuses, so must tracing (or evaluating)."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            wanted = fn(*args)
        except (TypeError, ValueError, OverflowError) as refusal:
            try:
                meaning(trace(fn, *args), *args)
            except (EqfuseError, ValueError, TypeError):
                return None
            return f"NumPy refuses: {refusal!r}"
        got = meaning(trace(fn, *args), *args)
    pairs = zip(got, wanted, strict=True) if isinstance(wanted, tuple) else [(got, wanted)]
    return next((text for g, w in pairs if (text := difference(g, w))), None)


# ---- promotion

REFUSED = {np.spacing: dtypes.FLOAT8[:1], scipy.special.ndtr: (np.dtype("c8"), np.dtype("c16"))}
SPECIAL = {getattr(scipy.special, name) for name in ("erf", "erfc", "expit", "logit", "ndtr", "xlogy")}
ELEMENTWISE = sorted(  # (SciPy's polynomials would count up to the largest int64)
    (f for f in TRACED_UFUNCS.keys() & (get_overridable_numpy_ufuncs() | SPECIAL)
     if f.signature is None and f.nin <= 2),
    key=lambda f: f.__name__,
)  # fmt: skip


def in_turn(number: int, *chosen: int) -> bool:
    """Is a combination among the third that function number `number` is tried with? Three neighbours are with all."""
    return (number + sum(chosen)) % 3 == 0


@pytest.mark.parametrize("ufunc", ELEMENTWISE, ids=lambda f: f.__name__)
def test_a_ufunc_of_every_combination_of_dtypes_does_what_numpy_does(ufunc):
    for chosen in product(range(len(dtypes.TENSORS)), repeat=ufunc.nin):
        if len({*chosen}) > 1 and not in_turn(ELEMENTWISE.index(ufunc), *chosen):
            continue
        given_dtypes = [dtypes.TENSORS[i] for i in chosen]
        if given_dtypes[0] in REFUSED.get(ufunc, ()):
            with pytest.raises(UnsupportedOp, match=f"{ufunc.__name__} of"):
                trace(ufunc, ef.spec((2,), given_dtypes[0]))
            continue
        wrong = misfit(ufunc, *(sample((2, 7), d, seed) for seed, d in enumerate(given_dtypes)))
        assert wrong is None, (*(d.name for d in given_dtypes), wrong)


OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "eq", "ne", "gt", "ge", "and_", "or_", "xor",
    "lshift", "rshift",
)  # fmt: skip
SCALARS = (
    0, 1, 2, -1, 3, 300, 2**40, True, 0.5, 2.0, -1.0, 3.0, float("nan"), 1j, 2 + 0j, 0.5 - 2j,
    np.float32(1.5), np.int64(3), np.complex64(1j), ml_dtypes.bfloat16(1.5),
)  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_with_a_scalar_of_any_kind_promotes_as_numpy_does(name):
    function = getattr(operator, name)
    for (i, dtype), (j, scalar) in product(enumerate(dtypes.TENSORS), enumerate(SCALARS)):
        if name not in ("pow", "lshift", "rshift") and not in_turn(OPERATORS.index(name), i, j):
            continue  # (these have no neighbours that promote alike)
        x = sample((3, 5), dtype)
        for fn in (lambda a, s=scalar: function(a, s), lambda a, s=scalar: function(s, a)):
            wrong = misfit(fn, x)
            assert wrong is None, (dtype.name, scalar, wrong)


@pytest.mark.parametrize("scalar", [2, 0.5, 1 - 2j, True], ids=repr)
@EVERY
def test_a_python_scalar_given_as_an_argument_is_as_weak_as_one_in_the_code(scalar, dtype):
    x = sample((4,), dtype)
    for fn in (lambda a, s: a * s, lambda a, s: s - a, lambda a, s: a + (s + s), lambda a, s: np.where(a == 0, s, a)):
        assert misfit(fn, x, scalar) is None


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda a: np.sum(a, 0), "prod": lambda a: np.prod(a, 1), "mean": lambda a: np.mean(a, 0),
    "mean in float32": lambda a: np.mean(a, dtype="f4"), "mean in complex": lambda a: np.mean(a, dtype="D"),
    "var": lambda a: np.var(a, 0), "std": lambda a: np.std(a, 1, ddof=1), "var in complex": partial(np.var, dtype="D"),
    "max": lambda a: np.max(a, 0), "min": np.min, "max from": lambda a: np.max(a, initial=2), "ptp": np.ptp,
    "sum from a float": lambda a: np.sum(a, initial=2.5), "any": lambda a: np.any(a, 0), "all": np.all,
    "argmax": lambda a: np.argmax(a, 0), "argmin": np.argmin, "sort": lambda a: np.sort(a, 0), "cumsum": np.cumsum,
    "sum in bool": partial(np.sum, dtype=bool), "sum in complex": partial(np.sum, dtype=np.complex64),
    "average": np.average, "weighted": lambda a: np.average(a, weights=np.ones(a.shape)), "nansum": np.nansum,
    "count_nonzero": np.count_nonzero, "dot": lambda a: np.dot(a, a.T), "inner": lambda a: np.inner(a, a),
    "tensordot": lambda a: np.tensordot(a, a.T, 1), "vdot": lambda a: np.vdot(a, a), "kron": lambda a: np.kron(a, a),
    "vecdot": lambda a: np.vecdot(a, a), "matvec": lambda a: np.matvec(a.T, a[:, 0]), "@": lambda a: a @ a.T,
    "vecmat": lambda a: np.vecmat(a[:, 0], a), "einsum": lambda a: np.einsum("ij,kj", a, a), "trace": np.trace,
    "norm": np.linalg.norm, "norm of rows": lambda a: np.linalg.norm(a, axis=1), "outer": lambda a: np.outer(a, a),
    "norm 0": lambda a: np.linalg.norm(a, 0, axis=1), "norm 3": lambda a: np.linalg.norm(a, 3, axis=1),
    "norm inf": lambda a: np.linalg.norm(a, np.inf), "round": np.round, "round 1": lambda a: np.round(a, 1),
    "clip": lambda a: np.clip(a, -1, 1), "clip below": lambda a: np.clip(a, -1, None),
    "clip floats": lambda a: np.clip(a, -1.0, 1.0), "nan_to_num": np.nan_to_num,
    "isclose": lambda a: np.isclose(a, a + a), "sinc": np.sinc,
    "diff": np.diff, "pad": lambda a: np.pad(a, 1), "tril": np.tril, "where": lambda a: np.where(a > 0, a, 0),
    "where a float": lambda a: np.where(a > 0, a, 0.5), "where a complex": lambda a: np.where(a, a, 1j),
    "concatenate": lambda a: np.concatenate([a, a.astype("f4")]), "stack": lambda a: np.stack([a, a]),
    "concatenate integers": lambda a: np.concatenate([a, np.ones(a.shape, "i4")]), "square": lambda a: a**2,
    "full_like": lambda a: np.full_like(a, 2.5), "real": lambda a: a.real, "imag": lambda a: a.imag,
    "np.real": np.real, "np.imag": np.imag, "conj": lambda a: a.conj(), "angle": np.angle, "isreal": np.isreal,
    "angle in degrees": lambda a: np.angle(a, deg=True), "iscomplex": np.iscomplex, "abs": abs, "+": operator.pos,
    "iscomplexobj": lambda a: a * np.iscomplexobj(a) + np.isrealobj(a), "~": operator.inv, "-": operator.neg,
    "divmod": lambda a: divmod(a, 2), "<<": lambda a: a << 1, ">> far": lambda a: a >> 70, "positive": np.positive,
    "polyval": lambda a: np.polyval([1, 2, 3], a), "polar": lambda a: np.abs(a) * np.exp(1j * np.angle(a)),
    "Fourier": lambda a: a @ np.exp(-2j * np.pi * np.outer(np.arange(5), np.arange(5)) / 5),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_every_dtype_does_what_numpy_does(name):
    for dtype in dtypes.TENSORS:
        x = np.nan_to_num(sample((3, 5), dtype), posinf=2, neginf=-2) if dtype.kind in "fc" else sample((3, 5), dtype)
        wrong = misfit(FUNCTIONS[name], x)
        assert wrong is None, (dtype.name, wrong)


@EVERY
def test_a_cast_to_every_dtype_is_numpys(dtype):
    x = np.abs(np.arange(6) - 2).reshape(2, 3).astype(dtype)
    for target in dtypes.TENSORS:
        assert misfit(lambda a, t=target: a.astype(t), x) is None


@COMPLEX
def test_an_imaginary_part_that_a_cast_drops_is_warned_about_when_traced(dtype):
    with pytest.warns(ComplexWarning) as caught:
        trace(lambda z: z.astype("f4"), sample((3,), dtype))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace(lambda z: z.astype(bool), sample((3,), dtype))


@EVERY
def test_jit_takes_complex_scalars_and_arrays_of_every_dtype(dtype):
    @ef.jit
    def turned(x, by):
        return x * by

    x = np.arange(4).astype(dtype)
    assert difference(turned(x, 2j), x * 2j) is None
    assert difference(turned(x, 1j), x * 1j) is None


# ---- what is no tensor


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (np.zeros(2, ">f4"), "native byte order"),
        (np.zeros(2, ">c16"), "native byte order"),
        (np.zeros(2, np.longdouble), np.dtype(np.longdouble).name),
        (np.zeros(2, np.clongdouble), np.dtype(np.clongdouble).name),
        (np.zeros(2, object), "object"),
        (np.array(["a"]), "<U1"),
        (np.array([b"a"]), "S1"),
        (np.zeros(2, [("a", "f4")]), "'a'"),
        (np.zeros(2, "M8[s]"), "datetime64"),
        (np.zeros(2, "m8[s]"), "timedelta64"),
        (np.zeros(2, ml_dtypes.int4), "int4"),
        (np.zeros(2, ml_dtypes.float8_e4m3b11fnuz), "float8_e4m3b11fnuz"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_an_array_of_another_dtype_is_refused_by_name(value, named):
    for use in (lambda: trace(lambda x: x, value), lambda: trace(lambda x: x + value, np.ones(2))):
        with pytest.raises(TraceError, match=named):
            use()
    with pytest.raises(TraceError, match=named):
        ef.spec((2,), value.dtype)


@pytest.mark.parametrize("dtype", [dtypes.BFLOAT16, dtypes.FLOAT8[0]], ids=lambda d: d.name)
def test_dtypes_without_a_common_one_are_refused_as_numpy_refuses_them(dtype):
    with pytest.raises(ShapeError, match=f"{dtype.name}, int32 have no common dtype"):
        trace(lambda a, b: np.where(a > 0, a, b), ef.spec((2,), dtype), ef.spec((2,), "i4"))
    with pytest.raises(ShapeError, match=f"einsum is not defined for {dtype.name}"):
        trace(lambda a: np.einsum("i,i", a, a), ef.spec((2,), dtype))


# ---- text, digests, files


@EVERY
def test_a_constant_of_every_dtype_is_rebuilt_bit_for_bit_from_its_text(dtype):
    for array in (sample((), dtype, 1), sample((40, 3), dtype), np.array([-0.0]).astype(dtype), sample((0, 2), dtype)):
        literal = Literal(array)
        again = literal_from_text(*eval(f"({literal.text()})"))
        assert again == literal and hash(again) == hash(literal) and again.array.tobytes() == array.tobytes()


@EVERY
def test_a_graph_of_every_dtype_is_rebuilt_from_its_text(dtype):
    table = sample((5,), dtype)
    graph = trace(lambda x: np.where(x == 0, table, x).astype("c16"), ef.spec((3, 5), dtype))
    assert str(parse(str(graph))) == str(graph) and parse(str(graph)).key == graph.key


@EVERY
def test_a_program_of_every_dtype_is_saved_and_loaded(dtype, tmp_path: Path):
    table = np.arange(300).astype(dtype)  # large: kept beside the graph
    x = np.arange(300)[::-1].astype(dtype)
    program = ef.compile(lambda a: np.where(a == table, table, a + a), x, verify=True)
    program.save(tmp_path / "program")
    assert ef.load(tmp_path / "program")(x).tobytes() == program(x).tobytes()
    assert difference(program(x), np.where(x == table, table, x + x)) is None


# ---- whole programs

STEPS = (
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} * {s}", "{s} - {a}", "{a} + {a}", "-{a}", "{a} * {b} + {a} * {b}",
    "{a} @ {b}.T", "{a}.sum(axis={axis}, keepdims=True)", "({a} * {s}).sum(axis={axis}, keepdims=True)",
    "np.abs({a})", "np.where(x == 0, {a}, {b})", "{a}.T.copy().T", "{a}[::-1]", "np.conj({a})", "{a}.real", "{a}.imag",
    "np.square({a})", "np.abs({a} * {b})", "np.abs(-{a})", "({a} @ {b}.T) * {s} @ {a}", "{a}.astype({d})",
    "np.concatenate([{a}, {b}], axis=0)[:3]", "np.exp({a} * 0) * np.exp({b} * 0)", "np.sign({a}) * np.abs({a})",
    "{a} / ({b} * {b} + 1)", "{a} ** 2",
)  # fmt: skip
# of complex numbers these jump where rounding may fall to either side
ORDERED = (
    "np.max({a}, axis={axis}, keepdims=True)", "np.maximum({a}, {b})", "np.minimum(-{a}, -{b})", "np.sqrt({a} * {a})",
    "np.maximum({a}, -{a})", "np.minimum(np.minimum({a}, {b}), {b})",
)  # fmt: skip
SMOOTH = tuple(d.name for d in dtypes.TENSORS if dtypes.kind(d) in "fc")


@st.composite
def mixed(draw: st.DrawFn) -> tuple[str, list[np.ndarray], str]:
    """A function of three arrays [3, 4] of any dtypes, as text; the arrays; and how exact the program must be."""
    numerics = draw(st.sampled_from(("strict", "reassociate")))
    names: dict[str, Any] = {"np": np}
    for name in "xyz":
        dtype, rng = draw(st.sampled_from(dtypes.TENSORS)), np.random.default_rng(draw(st.integers(0, 9)))
        names[name] = np.abs(rng.integers(-3, 4, (3, 4))).astype(dtype)
        if dtype.kind == "c":
            names[name] -= 1j * names[name][::-1]
    args, lines = [names[name] for name in "xyz"], []
    for i in range(draw(st.integers(2, 8))):
        usable = [name for name in names if name != "np"]
        a, b = draw(st.sampled_from(usable)), draw(st.sampled_from(usable))
        ordered = numerics == "strict" or names[a].dtype.kind != "c" != names[b].dtype.kind
        step = draw(st.sampled_from(STEPS + ORDERED if ordered else STEPS)).format(
            a=a, b=b, axis=draw(st.sampled_from((0, 1, (0, 1)))), s=draw(st.sampled_from(("2", "0.5", "1j", "-1"))),
            d=repr(draw(st.sampled_from(SMOOTH))),
        )  # fmt: skip
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                value = eval(step, dict(names))
            except (TypeError, ValueError, OverflowError):
                continue  # NumPy refuses it
            if np.isfinite(value).all() and np.abs(dtypes.real_parts(value).astype(np.float64)).max() < 300:
                names[f"v{i}"] = value
                lines.append(f"    v{i} = {step}\n")
    outputs = [name for name in names if name.startswith("v")] or ["x"]
    return f"def program(x, y, z):\n{''.join(lines)}    return {', '.join(outputs)},\n", args, numerics


def agrees_whole(text: str, args: list[np.ndarray], numerics: str) -> None:
    names: dict[str, Any] = {"np": np}
    exec(text, names)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = names["program"](*args)
        got = ef.compile(names["program"], *args, numerics=numerics)(*args)
    met = [v.dtype for v in (*args, *wanted) if dtypes.kind(v.dtype) in "fc" and v.dtype not in dtypes.FLOAT8]
    coarsest = max(map(dtypes.epsilon, met), default=0.0)
    largest = max(float(np.abs(w).max()) for w in wanted)
    for g, w in zip(got, wanted, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        a, b = (dtypes.real_parts(v).astype(np.float64) for v in (g, w))
        near = 4 * dtypes.epsilon(w.dtype) if dtypes.kind(w.dtype) in "fc" else 0.0
        room = near * float(np.abs(b).max()) if numerics == "strict" else (16 * coarsest + near) * largest
        np.testing.assert_allclose(a, b, rtol=0, atol=room if dtypes.kind(w.dtype) in "fc" else 0)


@pytest.mark.slow
@settings(max_examples=many(60), deadline=None)
@given(mixed())
def test_many_programs_over_mixed_dtypes_agree_with_numpy(drawn):
    agrees_whole(*drawn)
