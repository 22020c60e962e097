"""Known indices are slices, reversed slices and repeated elements where these are few."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.frontends.numpy.constant_indices import picked
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph
from tests.support.kernels import read

PLACES = {
    "edge": np.pad(np.arange(9), (2, 3), "edge"), "wrap": np.pad(np.arange(9), (1, 1), "wrap"),
    "reflect": np.pad(np.arange(9), (3, 2), "reflect"), "symmetric": np.pad(np.arange(9), (9, 1), "symmetric"),
    "repeated": np.repeat(np.arange(3), 4), "every third": np.arange(0, 9, 3), "backwards": np.arange(8, -1, -4),
    "one": np.array([5]), "two": np.array([7, 1]),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("axis", [-1, -2])
def test_pieces_hold_what_the_indices_select(name, axis):
    x = read(0, (9, 9))
    array = np.arange(81, dtype=np.float32).reshape(9, 9)
    pieces = picked(x, PLACES[name], axis)
    assert pieces is not None and "take" not in {n.op for n in Graph((x,), (pieces,)).nodes}
    np.testing.assert_array_equal(evaluate(Graph((x,), (pieces,)), [array])[0], array.take(PLACES[name], axis))


def test_many_pieces_are_gathered():
    assert picked(read(0, (9, 9)), np.array([0, 5, 1, 6, 2, 7, 3, 8, 4, 0, 7]), -1) is None
    assert picked(read(0, (9, 9)), np.array([], int), -1) is None
