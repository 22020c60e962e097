"""Python numbers as indices, which give views, and the memory of what they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from tests.frontends.python_numbers import misfits, outcome, report, same

INDICES = (
    "n", "n, m", "n, 1", ":, n", "..., n", "n, :, m", "1:, n", "n, ::-1", "None, n", "-1, n, 1:", "n, ..., None",
    "::2, m, n", "n, 1:, ::2", "1:, n, 1:", "m, n, 1:",
)  # fmt: skip
USES = (
    "row += 1", "row[...] = 7", "row *= x[0, 0, 0]", "row = row.T; row -= 2", "row = row[..., None]; row[...] = 3",
    "x[...] = 0; row = row + 1", "x[{key}] += 5; row = row * 2", "x[{key}] = row * 2", "x[1] = 4; row += row",
    "row = row.copy(); row += 1", "row = row.reshape(-1) + 1",
)  # fmt: skip


@pytest.mark.parametrize("key", INDICES)
def test_a_number_as_an_index_takes_a_view_as_in_numpy(key: str) -> None:
    def cases() -> Iterator[str]:
        for use, number in [*((use, int) for use in USES), *((use, np.int64) for use in USES[:2])]:
            names: dict[str, Any] = {"np": np}
            body = ("x = x.copy()", f"row = x[{key}]", use.format(key=key), "return x, row")
            exec("\n    ".join(("def f(x, n, m):", *body)), names)
            f, x = names["f"], np.arange(24.0).reshape(2, 3, 4)
            graph = ef.trace(f, x, number(1), number(0))
            run = ef.compile(graph) if use == USES[0] and number is int else partial(ef.meaning, graph)
            for n, m in ((1, 0), (0, 1), (-1, -2), (1, 2), (2, 5)):
                wanted, got = outcome(f, x, number(n), number(m)), outcome(run, x, number(n), number(m))
                if not (isinstance(got, IndexError) if isinstance(wanted, Exception) else same(got, wanted)):
                    yield f"{key}, {use}, {(n, m)}: {got!r}, NumPy gives {wanted!r}"

    report(cases())


@pytest.mark.parametrize("number", [1, -1, np.int64(1), np.uint8(1), np.intp(-1), np.array(1)], ids=repr)
def test_an_index_of_every_kind_gives_a_scalar_or_an_array_of_rank_0_as_numpy_does(number: Any) -> None:
    def cases() -> Iterator[str]:
        keys = ("n", "n, ...", "..., n", ":, n", "n, n", "n, n, ...", "n, None")
        for shape, key in product(((4,), (3, 4), (2, 3, 4)), keys):
            x = np.arange(np.prod(shape)).reshape(shape)
            function = eval(f"lambda x, n: x[{key}]")
            yield from (f"{shape}, {key}: {text}" for text in misfits(function, (x,), [(number,)]))

    report(cases())


MASKED = (
    "x[n, mask[n]] = 5", "x[n, :, mask[n, :, 0]] += 2", "x[mask[:, 0, 0], n] = 3", "x[..., n, mask[0, 0]] = 1",
    "x[n, mask[n]] *= x[n, mask[n]]", "x[n, 1, mask[0, 0]] = n",
)  # fmt: skip


@pytest.mark.parametrize("statement", MASKED)
def test_a_number_beside_a_mask_selects_what_it_does_in_numpy(statement: str) -> None:
    names: dict[str, Any] = {}
    exec(f"def f(x, n, mask):\n    x = x.copy()\n    {statement}\n    return x", names)
    x = np.arange(24.0).reshape(2, 3, 4)
    report(misfits(names["f"], (x,), [(n, x % 5 < 3) for n in (1, 0, -1, 2)]))


def test_what_is_assigned_to_flat_must_fit_the_dtype() -> None:
    def first(x: Any, n: Any) -> Any:
        x = x.copy()
        x.flat[1:3] = n
        return x

    def two(x: Any, n: Any) -> Any:
        x = x.copy()
        x.flat[[2, 0]] = [n, 1]
        return x

    for f, dtype, numbers in product((first, two), (np.int8, np.uint32, float, bool), ((3, -1, 300), (1.5,), (2j,))):
        report(misfits(f, (np.arange(4).astype(dtype),), [(n,) for n in numbers]))


# ---- the memory of what they make

LAID = (
    "x + n", "n - x", "x < n", "u >= n", "x ** n", "x ** (n / 2)", "h ** n", "np.where(x > 2, n, x)",
    "np.where(n > 1, x, x + 1)", "np.maximum(x, n)", "np.clip(x, n, 9)", "np.full_like(x, n)", "x[:, n]", "x[n]",
    "x[..., n, None]", "x[n, [1, 2]]", "x[[1, 0]] * n", "np.nan_to_num(x * n, nan=n)", "np.stack([x, x + n])",
    "np.isclose(x, n)", "np.array([x.T, x.T * n], order='F')", "np.full((2, 3), n, order='F')", "np.modf(x * n)[0]",
)  # fmt: skip
LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "C": np.copy, "F": np.asfortranarray, "reversed": lambda a: a[::-1].copy()[::-1],
    "strided": lambda a: np.repeat(a, 2, 1)[:, ::2],
}  # fmt: skip


@pytest.mark.parametrize("expression", LAID)
def test_what_a_number_makes_lies_in_memory_as_in_numpy(expression: str) -> None:
    def cases() -> Iterator[str]:
        names: dict[str, Any] = {"np": np}
        body = (
            f"value = {expression}", "seen = value.copy('K').ravel('A'), value.ravel('K')",
            "value.reshape(-1)[...] = 1",  # where it is a view, the array changes with it
            "return seen, value, x",
        )  # fmt: skip
        exec("\n    ".join(("def f(x, u, h, n):", *body)), names)
        run, x = ef.jit(names["f"], laws="none", extractor="unfused"), np.arange(12.0).reshape(3, 4)
        for (lay, laid), n in product(LAYOUTS.items(), (1, 2, 0)):
            given = [tuple(map(laid, (x, x.astype("u8"), x.astype("f2")))) for _ in range(2)]
            wanted, got = outcome(names["f"], *given[0], n), outcome(run, *given[1], n)
            if not same(got, wanted) or not same(given[0], given[1]):
                yield f"{expression}, {lay}, {n}: {got!r}, NumPy gives {wanted!r}"

    report(cases())
