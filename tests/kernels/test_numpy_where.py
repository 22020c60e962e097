"""``where`` on many elements: whichever way it goes, the result holds the chosen bits."""

from __future__ import annotations

import numpy as np
import pytest

from eqfuse.emit.numpy.where import choose_between

N = 5000
CONDITIONS = {
    "always": np.ones(N, bool),
    "never": np.zeros(N, bool),
    "seldom changing": np.arange(N) // 500 % 2 == 0,
    "often changing": np.random.default_rng(0).random(N) > 0.5,
    "with gaps": np.ones(2 * N, bool)[::2],
    "of one element": np.array([True]),
}
EMPTY = np.zeros((0, 65), bool)  # a tile of an array that is joined of pieces may be none


@pytest.mark.parametrize("out", ["elsewhere", "yes", "no"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, np.bool_])
@pytest.mark.parametrize("name", CONDITIONS)
def test_the_chosen_bits_arrive_wherever_the_result_lies(name, dtype, out):
    condition = CONDITIONS[name]
    rng = np.random.default_rng(1)
    yes, no = (rng.normal(size=N).astype(dtype) for _ in range(2))
    if dtype == np.float64:
        yes[3], no[4] = np.nan, -0.0
    wanted = np.where(condition, yes, no)
    result = {"elsewhere": np.empty(N, dtype), "yes": yes, "no": no}[out]
    choose_between(condition, yes, no, np.empty(condition.shape, f"i{yes.itemsize}"), result)
    assert result.tobytes() == wanted.tobytes()


def test_a_number_may_be_chosen():
    condition = CONDITIONS["often changing"]
    x, zero = np.arange(N) * 1.0, np.array(0.0)
    for yes, no in ((x, zero), (zero, x)):
        out = np.empty(N)
        choose_between(condition, yes, no, np.empty(N, np.int64), out)
        np.testing.assert_array_equal(out, np.where(condition, yes, no))


def test_nothing_is_chosen_of_no_elements():
    out = np.empty((0, 65))
    choose_between(EMPTY, out, np.ones((1, 65)), np.empty((0, 65), "i8"), out)
    assert out.shape == EMPTY.shape


@pytest.mark.parametrize("out", ["elsewhere", "yes", "no"])
@pytest.mark.parametrize("width", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("name", ["seldom changing", "often changing", "always"])
def test_one_element_of_the_condition_chooses_a_row(name: str, width: int, out: str) -> None:
    condition = CONDITIONS[name].reshape(50, 100, 1)
    yes, no = np.random.default_rng(1).normal(size=(2, 50, 100, width))
    for a, b in ((yes, no), (yes[:, :1], no), (yes, no[:, :, :1]), (yes, np.array(2.0)), (yes[0, 0], no)):
        result = {"elsewhere": np.empty(yes.shape), "yes": a, "no": b}[out]
        if result.shape == yes.shape:
            wanted = np.where(condition, a, b)
            choose_between(condition, a, b, np.empty(condition.shape, "i8"), result)
            np.testing.assert_array_equal(result, wanted)
