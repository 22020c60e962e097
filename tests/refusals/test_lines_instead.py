"""Loops of Python that data would decide are refused with the lines to write, which run when they are pasted."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from itertools import count
from textwrap import dedent, indent
from typing import Any

import numpy as np
import pytest

import eqfuse as ef

LOOPS = {
    "one condition": """
        error = np.abs(x).max()
        while error > eps:
            x = x * 0.5
            error = np.abs(x).max()
        return x
    """,
    "conditions joined": """
        n = 0
        while not x.max() < eps and (n < 100 or x.min() > 9.0):
            x = x / 2
            n += 1
        return x, n
    """,
    "a chain of comparisons": """
        while eps < x.max() < 5.0:
            x = x * 0.5
        return x
    """,
    "a loop within": """
        while x.max() > eps:
            for _ in range(3):
                x = x * 0.9
        return x
    """,
    "writes in place": """
        x = x.copy()
        while x.max() > eps:
            x[0] = x[0] * 0.5
            x[1:] *= 0.25
        return x
    """,
    "names that change places": """
        a, b = x, x * 2
        while (a - b).max() ** 2 > eps:
            a, b = b, (a + b) / 2
            b -= 0.001
        return a, b
    """,
    "a loop within that data decide too": """
        while x.max() > eps:
            y = x
            while y.max() > x.max() * 0.5:
                y = y * 0.9
            x = y
        return x
    """,
    "a way out at the end": """
        n = 0
        while x.max() > eps:
            x = x * 0.5
            n = n + 1
            if n == 5:
                break
        return x, n
    """,
    "so many turns as data say": """
        n = x.size + eps
        for i in range(1, int(n)):
            x = x * 0.5 + i
        return x
    """,
    "so many turns as is computed": """
        y = x
        for i in range(int(3 * eps + x[0])):
            y = y * 0.5 + i
        return y
    """,
    "no end but a way out": """
        n = 0
        while True:
            new = x * 0.5
            if np.abs(new - x).max() < eps and n > 3:
                break
            x = new
            n += 1
        return x, n
    """,
}
_numbers = count()


def written(source: str) -> Callable[..., Any]:
    name = f"<lines {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names: dict[str, Any] = {"np": np, "ef": ef}
    exec(compile(source, name, "exec"), names)
    function: Callable[..., Any] = names["f"]
    return function


def pasted(source: str, refusal: str) -> str:
    """`source` with the lines of the `refusal` in place of the loop that they are for."""
    shown = re.search(r"In place of `((?:while|for) .*)`:\n((?:    .*\n)+)", refusal)
    assert shown, refusal
    lines = source.splitlines()
    first = next(i for i, line in reversed([*enumerate(lines)]) if line.strip() == shown[1])
    depth = len(lines[first]) - len(lines[first].lstrip())
    end = next(i for i in range(first + 1, len(lines)) if len(lines[i]) - len(lines[i].lstrip()) <= depth)
    return "\n".join([*lines[:first], *indent(dedent(shown[2]), " " * depth).splitlines(), *lines[end:], ""])


@pytest.mark.parametrize("case", LOOPS)
def test_the_lines_of_a_refusal_run_when_they_are_pasted(case: str) -> None:
    source = f"def f(x, eps):\n{indent(dedent(LOOPS[case]), '    ')}"
    x, eps = np.array([1.0, 0.5, 0.7, 0.9]), np.float64(1e-3)
    wanted = written(source)(x.copy(), eps)
    times = 0
    while True:
        try:
            program = ef.compile(written(source), x, eps, target="numpy")
        except ef.TraceError as refused:
            source = pasted(source, str(refused))
            times += 1
        else:
            break
    assert 1 <= times <= 2
    for got, meant in zip(*(r if isinstance(r, tuple) else (r,) for r in (program(x, eps), wanted)), strict=True):
        np.testing.assert_allclose(got, meant, rtol=1e-12)
