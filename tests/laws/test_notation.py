"""What is written with terms is what NumPy computes, or a LawError at that line: never something else."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special
from numpy.testing.overrides import get_overridable_numpy_array_functions, get_overridable_numpy_ufuncs

import eqfuse as ef
from eqfuse.errors import EqfuseError, LawError
from eqfuse.ops import row
from eqfuse.ops.numpy_names import title
from eqfuse.ops.types import TensorType
from eqfuse.rewrites import Law, attrs, tensors
from eqfuse.rewrites.language.match import Decline, RightSide
from eqfuse.rewrites.language.term import LITERAL, VARIABLE, Term, walk

pytestmark = pytest.mark.filterwarnings("ignore")

x, y, z = tensors("x y z")
TERMS = {"x": x, "y": y, "z": z}


def _drawn(dtype: Any, *shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    samples = [rng.integers(-4, 5, shape) for shape in shapes]
    return {name: (m > 0 if dtype is bool else m.astype(dtype)) for name, m in zip("xyz", samples, strict=True)}


ARRAYS = [
    _drawn(np.float64, (2, 3), (2, 3), (2, 3)), _drawn(np.float32, (3, 3), (3, 3), (3, 1)),
    _drawn(np.int64, (2, 3), (2, 3), (2, 3)), _drawn(np.uint8, (3, 3), (3, 3), (3, 3)),
    _drawn(bool, (2, 3), (2, 3), (3,)), _drawn(np.complex128, (2, 3), (2, 3), (2, 3)),
    _drawn(np.float64, (4,), (4,), (4,)), _drawn(np.float64, (), (), ()),
    _drawn(np.float64, (2, 3, 3), (2, 3, 3), (3, 3)), _drawn(np.float64, (2, 3), (3, 2), (2, 2)),
    _drawn(np.float64, (2, 3), (2, 3), (2, 3)) | {"x": np.array([[True, False, True], [False, True, True]])},
    _drawn(np.float64, (2, 3), (2, 3), (2, 3)) | {"y": np.array([[1, 0, 2], [0, 1, -1]])},
]  # fmt: skip

# arguments to try; letters stand for the variables
CALLS: list[tuple[tuple, dict[str, Any]]] = [
    *((given, {}) for given in (
        ("x",), ("x", "y"), ("x", "y", "z"), ("x", -1), ("x", 0), ("x", 1), ("x", 2), (2, "x"), (0.5, "x"), ("x", 0.5),
        ("x", -1.0), ("x", "y", -1), ("x", 0, 1), ("x", None, 1), ("x", 0, None), ("x", (1, 0)), ("x", 1, 0),
        ("x", (3, 2)), ("x", 3, 2), ("x", (2, -1)), ("x", (-2, -1)), ("x", None), ("x", "y", 2), (("x", "y"), -1),
        (("x", "y"),), ("x", np.float32), ("x", "i8"),
    )),
    *((("x",), options) for options in (
        {"axis": -1}, {"axis": 0}, {"axis": None}, {"axis": -1, "keepdims": True}, {"axis": (-2, -1), "keepdims": True},
        {"keepdims": True}, {"axis": -1, "keepdims": False}, {"axis": -1, "keepdims": True, "dtype": np.float64},
        {"min": 0, "max": 1}, {"min": 1}, {"dtype": np.float64}, {"decimals": 1}, {"stable": True}, {"order": "C"},
    )),
    (("x", "y"), {"axis": -1}), (("x", "y"), {"where": True}), (("x", (2, 3)), {"order": "F"}),
    (("x", "y", "z"), {"out": None}),
]  # fmt: skip


def placed(value: Any, names: dict[str, Any]) -> Any:
    """`value` with the variables for their names."""
    if isinstance(value, tuple):
        return tuple(placed(v, names) for v in value)
    return names[value] if isinstance(value, str) and value in names else value


def value_of(term: Term, arrays: dict[str, np.ndarray]) -> np.ndarray | None:
    """What the term means of `arrays`; None where they do not fit it."""
    right = RightSide({name: TensorType(a.dtype, a.shape) for name, a in arrays.items()}, {})
    try:
        right.type(term)
    except (EqfuseError, Decline, LookupError, TypeError, ValueError):
        return None
    if any(t.op == LITERAL and type(t.value) is float and right.types[t].dtype.kind in "iu" for t in walk(term)):
        return None  # numbers of a law have the dtype of what stands beside them

    def run(t: Term) -> Any:
        if t.op == VARIABLE:
            return arrays[t.name]
        if t.op == LITERAL:
            return right.attrs[t][0].array
        return row(t.op).meaning(*map(run, t.args), *right.attrs[t])

    return np.asarray(run(term))


def says_what_numpy_does(name: str, function: Callable[..., Any]) -> bool:
    """Whether some call of `function` gives a term; each of these means what NumPy does, the others are LawErrors."""
    said = False
    for given, options in CALLS:
        try:
            with np.errstate(all="ignore"):
                result = function(*placed(given, TERMS), **options)
        except LawError:
            continue
        except Exception as error:
            if any(True for _ in _by_numpy(function, given, options)):
                pytest.fail(f"{name}{given} {options}: {type(error).__name__} {error}")
            continue
        said |= _agrees(f"{name}{given} {options}", result, _by_numpy(function, given, options))
    return said


def _by_numpy(function: Callable[..., Any], given: Any, options: dict) -> Iterator[tuple[dict[str, np.ndarray], Any]]:
    """Arrays of which NumPy gives a result, and it."""
    for arrays in ARRAYS:
        try:
            with np.errstate(all="ignore"):
                yield arrays, function(*placed(given, {k: v.copy() for k, v in arrays.items()}), **options)
        except Exception:
            continue


def _agrees(name: str, result: Any, cases: Iterator[tuple[dict[str, np.ndarray], Any]]) -> bool:
    """Whether there were arrays on which it was tried."""
    terms, tried = result if isinstance(result, tuple) else (result,), False
    for arrays, wanted in cases:
        for term, w in zip(terms, wanted if isinstance(result, tuple) else (wanted,), strict=True):
            if not isinstance(term, Term):
                assert np.array_equal(term, w), f"{name} is {result!r}, no term"
                continue
            with np.errstate(all="ignore"):
                got = value_of(term, arrays)
            if got is not None:
                tried = True
                w = np.asarray(w)
                if (got.dtype, got.shape) == (w.dtype, w.shape) and got.tobytes() == w.tobytes():
                    continue
                literal = any(t.op == LITERAL for t in walk(term))  # the dtype of which may choose another loop
                text = f"{name} is {term}: {got.dtype}{got.tolist()}, not {w} of {arrays}"
                np.testing.assert_allclose(got, w, 1e-6, err_msg=text, strict=not literal)
    return tried


FUNCTIONS = (
    "all amax amin any argmax argmin argsort around astype broadcast_to clip concatenate cumprod cumsum flip imag "
    "linalg.det linalg.inv linalg.matrix_transpose matrix_transpose max min prod real reshape round sort sum take "
    "take_along_axis transpose where"
)
ATTRIBUTES = (
    "T all any argmax argmin argsort astype clip conj conjugate cumprod cumsum imag mT max min prod real reshape round "
    "sum take transpose view"
)
OPERATORS = (
    "abs add and_ eq floordiv ge gt inv invert le lshift lt matmul mod mul ne neg or_ pos pow rshift sub truediv xor"
)
BUILTINS = (
    "abs divmod pow round len float int complex bool max min sorted any all range sum"
)


@pytest.mark.slow
def test_numpys_functions() -> None:
    functions = get_overridable_numpy_array_functions() - {np.frombuffer}  # of bytes alone: a TypeError
    said = {title(f) for f in functions if says_what_numpy_does(title(f), f)}
    assert said == {f"np.{name}" for name in FUNCTIONS.split()}


@pytest.mark.slow
def test_numpys_ufuncs() -> None:
    ufuncs = [*get_overridable_numpy_ufuncs(), *(f for f in vars(scipy.special).values() if isinstance(f, np.ufunc))]
    said = {title(f) for f in ufuncs if says_what_numpy_does(title(f), f)}
    assert len(said) > 100
    some = {"np.add", "np.divmod", "np.exp2", "np.fmod", "np.matmul", "np.not_equal", "np.positive"}
    assert some | {"scipy.special.erf"} <= said
    assert scipy.special.exp2(x).op == "exp2"
    assert not said & {"np.fabs", "np.float_power", "np.frexp", "np.heaviside", "np.modf", "np.spacing"}
    for ufunc in (np.add, np.maximum):
        for method, given in (("reduce", (x,)), ("accumulate", (x,)), ("outer", (x, y)), ("reduceat", (x, [0]))):
            with pytest.raises(LawError, match=rf"np\.{ufunc.__name__}\.{method} cannot stand in a law; write x.sum"):
                getattr(ufunc, method)(*given)


def test_the_methods_and_properties_of_arrays() -> None:
    def asked(name: str) -> Callable[..., Any]:
        def call(a: Any, *args: Any, **options: Any) -> Any:
            attribute = getattr(a, name)
            return attribute(*args, **options) if callable(attribute) else attribute

        return call

    in_place = {"sort", "partition", "resize", "tofile"}
    names = [name for name in dir(np.ndarray) if not name.startswith("__") and name not in in_place]
    assert {name for name in names if says_what_numpy_does(name, asked(name))} == set(ATTRIBUTES.split())
    with pytest.raises(AttributeError, match="a term has no attribute 'sums'"):
        x.sums  # noqa: B018
    with pytest.raises(LawError, match=r"ndarray.sort cannot stand in a law; write np\.sort"):
        x.sort()


def test_pythons_operators() -> None:
    by_identity = {"is_", "is_not", "is_none", "is_not_none", "attrgetter", "itemgetter", "methodcaller", "call"}
    functions = {name: getattr(operator, name) for name in operator.__all__ if name not in by_identity}
    said = {name for name, f in functions.items() if says_what_numpy_does(name, f)}
    plain = set(OPERATORS.split())
    assert said - {"getitem"} == plain | ({f"i{name}".rstrip("_") for name in plain} & functions.keys())


def test_builtins_and_the_math_module() -> None:
    functions = {name: getattr(builtins, name) for name in BUILTINS.split()}
    functions |= {f"math.{name}": f for name, f in vars(math).items() if callable(f)}
    said = {name for name, f in functions.items() if says_what_numpy_does(name, f)}
    assert said == {"abs", "divmod", "pow", "sum", "math.prod"}


@pytest.mark.parametrize(
    "written, instead",
    [
        (lambda: 0 < x < 1, r"0 < x < 1 is \(0 < x\) & \(x < 1\)"),
        (lambda: x and y, "A choice is np.where"),
        (lambda: y if x > 0 else -y, "A choice is np.where"),
        (lambda: np.dot(x, y), "write x @ y for matrices"),
        (lambda: x[0], "Write x.slice"),
        (lambda: x.sum(-1), "say keepdims=True"),
        (lambda: x.sum(), "Count from the end"),
        (lambda: x.sum(0, keepdims=True), "Count from the end"),
        (lambda: x.shape[0] > 2, "guards and computed values see the types"),
        (lambda: x.mean(axis=-1), r"x.sum\(p\) / computed"),
        (lambda: x.transpose(), "name all axes"),
        (lambda: np.pad(x, 1), r"write apply\('pad', x, y, attrs=\(widths,\)\)"),
        (lambda: math.sqrt(x), "Write np.sqrt"),
        (lambda: np.array([x, y]), r"np.concatenate\(\(x, y\), -1\) joins"),
        (lambda: np.ones(3) * x, "cannot stand in a law: write a tensor variable"),
        (lambda: list(x), "Write x.slice"),
        (lambda: [*x], "Write x.slice"),
        (lambda: x == None, "None cannot stand in a law"),  # noqa: E711
        (lambda: x in (y, z), "truth value of equal"),
    ],
)  # fmt: skip
def test_what_a_term_cannot_say_is_refused_where_it_is_written(written: Callable[[], Any], instead: str) -> None:
    with pytest.raises(LawError, match=instead) as error:
        written()
    assert "test_notation.py" in (error.value.where or "")


def test_terms_are_told_apart_by_identity() -> None:
    assert x is not y and {x: 1, y: 2}[y] == 2 and len({x, y, x}) == 2
    assert isinstance(x == x, Term) and isinstance(x != y, Term)


@pytest.mark.slow
def test_laws_are_about_what_is_written() -> None:
    (p,) = attrs("p")
    assert ef.check(Law("squares", x**2, x * x)).ok
    assert ef.check(Law("of_itself", np.clip(x, 0, 1), np.minimum(np.maximum(x, 0), 1))).ok
    assert ef.check(Law("both", (x < y) & (y < z), ~((x >= y) | (y >= z)))).counterexample is not None  # of NaN
    assert ef.check(Law("matrices", (x @ y).T, y.T @ x.T, exactness=ef.rewrites.REASSOCIATES)).ok
    assert ef.check(Law("rows", (x == y).all(p), (x != y).any(p))).counterexample is not None
    a = np.arange(12.0).reshape(3, 4) + 1
    law = Law("third_power", x**2 * x, np.power(x, 3.0), exactness=ef.rewrites.REASSOCIATES)
    assert ef.compile(lambda x: x**2 * x, a, laws=[law]).report.laws_fired == {"third_power": 1}
