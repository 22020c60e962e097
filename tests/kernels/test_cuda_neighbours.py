"""Elements are read several at once where they lie side by side: judged by the places themselves."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.emit.cuda.neighbours import neighbouring


def places(text: str, first: int, width: int, other: int) -> list[int]:
    c_like = text.replace("/", "//")
    return [eval(c_like, {"k": first + v, "m": other, "row": 3 * other}) for v in range(width)]


def drawn(rng: np.random.Generator, depth: int = 3) -> str:
    if depth == 0 or rng.random() < 0.2:
        return str(rng.choice(["k", "m", "row", "0", "3", "8", "24"]))
    op = str(rng.choice(["+", "+", "*", "/", "%"]))
    right = str(rng.choice([4, 8, 12, 32])) if op in "*/%" else drawn(rng, depth - 1)
    return f"({drawn(rng, depth - 1)} {op} {right})"


def test_places_said_to_lie_side_by_side_do_from_a_multiple_of_the_width_on() -> None:
    rng = np.random.default_rng(0)
    count = 0
    for _ in range(3000):
        text, width = drawn(rng), int(rng.choice([2, 4, 8]))
        if neighbouring(text, "k", width):
            count += 1
            for first, other in ((0, 0), (width, 1), (5 * width, 7)):
                elements = places(text, first, width, other)
                assert elements == list(range(elements[0], elements[0] + width)) and elements[0] % width == 0, text
    assert count > 100


@pytest.mark.parametrize("text", [
    "k", "(m * 40 + k)", "((m / 16) * 64 + k % 64)", "(k - 8)", "(m * 24 + (k / 8 * 8 + k % 8))",
])  # fmt: skip
def test_usual_places_of_neighbours_are_known_as_such(text: str) -> None:
    assert neighbouring(text, "k", 8)


@pytest.mark.parametrize("text", [
    "(m * 40 + k + 1)", "(k * 2)", "(39 - k)", "k / 4", "(m + k)", "t3", "k + t3", "k % 12",
])  # fmt: skip
def test_places_apart_or_not_aligned_are_read_one_by_one(text: str) -> None:
    assert not neighbouring(text, "k", 8)
