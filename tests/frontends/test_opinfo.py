"""torch's OpInfo table: NumPy references of its elementwise operators and reductions, traced, on torch's samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.errors import EqfuseError
from tests.frontends.agreement import agrees

pytestmark = pytest.mark.outside

KINDS = ("UnaryUfuncInfo", "BinaryUfuncInfo", "ReductionOpInfo")
DTYPES = ("float32", "float64", "int64", "bool", "complex64")

# what cannot be traced, and why: by the operator's name, or its name and dtype
UNTRACEABLE = {
    "special.airy_ai": "scipy.special.airy gives four results at once and is not among the operators",
    **dict.fromkeys(
        (f"special.spherical_bessel_j0 {dtype}" for dtype in ("float32", "float64", "int64")),
        "scipy.special.spherical_jn picks values by a mask: their number depends on data",
    ),
    "floor_divide": "torch's own promotion rules ask for the type of each argument, and know no tracer",
    "heaviside int64": "np.int64(...) asks for a value",
}


@pytest.fixture(scope="module")
def table() -> Iterator[list[Any]]:
    pytest.importorskip("torch", reason="the OpInfo table is part of torch")
    pytest.importorskip("expecttest", reason="torch's test tables import expecttest")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal import common_utils
        from torch.testing._internal.common_methods_invocations import op_db
        from torch.testing._internal.opinfo import core
    import torch

    with pytest.MonkeyPatch.context() as patch:
        # else torch looks for a test case of its own around every operator, and reads the source of every frame for it
        for module in (core, common_utils):
            patch.setattr(module, "extract_test_fn", lambda: None)
        # else it keeps the source of every frame for each kind of device that it seeds
        patch.setattr(torch, "manual_seed", torch.default_generator.manual_seed)
        yield [op for op in op_db if type(op).__name__ in KINDS and op.ref is not None]


def title(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def supports(op: Any, dtype: str) -> bool:
    import torch

    return getattr(torch, dtype) in op.dtypes


def samples(op: Any, dtype: str) -> Iterator[tuple[Callable[..., Any], list[np.ndarray]]]:
    """For each of torch's samples the reference as a function of arrays alone, and these arrays."""
    import torch

    for sample in op.sample_inputs("cpu", getattr(torch, dtype)):
        numpy = sample.numpy()
        kwargs = numpy.kwargs
        if type(op).__name__ == "UnaryUfuncInfo":
            _, kwargs = op.sample_kwargs("cpu", getattr(torch, dtype), sample.input)
        elif type(op).__name__ == "ReductionOpInfo":
            kwargs = sample.kwargs  # the references open torch's masks themselves
        arguments = [numpy.input, *numpy.args, *kwargs.values()]
        arrays = [i for i, a in enumerate(arguments) if isinstance(a, np.ndarray)]

        yield _of_arrays(op.ref, arguments, arrays, tuple(kwargs)), [arguments[i] for i in arrays]


def _of_arrays(ref: Callable[..., Any], arguments: list, arrays: list[int], names: tuple[str, ...]) -> Any:
    def reference(*values: Any) -> Any:
        filled = list(arguments)
        for i, value in zip(arrays, values, strict=True):
            filled[i] = value
        first = len(filled) - len(names)
        return ref(*filled[:first], **dict(zip(names, filled[first:], strict=True)))

    return reference


def verdict(op: Any, dtype: str, check: Callable[..., None], step: int = 1) -> str | None:
    """None when every sample, or one in `step` (not the same ones for each dtype), passes `check`, else what went
    wrong first."""
    for i, (reference, arrays) in enumerate(samples(op, dtype)):
        if (i - DTYPES.index(dtype)) % step:
            continue
        try:
            check(reference, *arrays)
        except (EqfuseError, ValueError, TypeError) as error:
            return f"refused: {error}"
        except (AssertionError, pytest.fail.Exception) as error:
            shapes = ", ".join(f"{a.dtype}{a.shape}" for a in arrays)
            return f"sample {i} ({shapes}) differs: {error}"
    return None


def judge(table: list[Any], kind: str, dtype: str, check: Callable[..., None], step: int = 1) -> None:
    wrong = []
    for op in table:
        if type(op).__name__ != kind or not supports(op, dtype):
            continue
        reason = UNTRACEABLE.get(title(op)) or UNTRACEABLE.get(f"{title(op)} {dtype}")
        answer = verdict(op, dtype, check, 1 if reason else step)
        if reason is None and answer is not None:
            wrong.append(f"{title(op)}: {answer}")
        elif reason is not None and (answer is None or not answer.startswith("refused")):
            wrong.append(f"{title(op)}: {answer or 'agrees on every sample: take it out of the table'}")
    assert not wrong, "\n".join(wrong)


def test_the_table_has_163_operators_with_references(table: list[Any]) -> None:
    assert len(table) == 163
    stale = {name.partition(" ")[0] for name in UNTRACEABLE} - {title(op) for op in table}
    assert not stale


def test_at_least_nine_tenths_of_the_references_can_be_traced(table: list[Any]) -> None:
    assert sum(title(op) in UNTRACEABLE for op in table) <= len(table) // 10


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_traced_reference_means_what_numpy_computes(table: list[Any], kind: str, dtype: str) -> None:
    """One sample in three, another one in the next dtype."""
    judge(table, kind, dtype, agrees, step=3)


def compiled(reference: Callable[..., Any], *arrays: np.ndarray) -> None:
    """Compiled, `reference` gives the dtypes and shapes of NumPy, and its numbers up to rounding."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            wanted = reference(*arrays)
        except (TypeError, ValueError, IndexError):
            return
        got = ef.compile(reference, *arrays)(*arrays)
    for g, w in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, wanted)), strict=True):
        g, w = np.asarray(g), np.asarray(w)
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        finite = np.isfinite(w)
        assert not np.isfinite(g[~finite]).any()
        tolerance = 256 * np.finfo(w.dtype).eps if w.dtype.kind in "fc" else 0
        scale = max([1, *(np.abs(a).max(initial=0) for a in arrays)]) if arrays else 1
        np.testing.assert_allclose(g[finite], w[finite], rtol=tolerance, atol=tolerance * float(scale))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_compiled_reference_gives_numpys_numbers(table: list[Any], kind: str, dtype: str) -> None:
    """One sample in eight in one dtype or another."""
    judge(table, kind, dtype, compiled, step=8 * len(DTYPES))
