"""What reading across the axis that an array lies along costs on a CPU: a copy by blocks where the kernel needs one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.profiles import DEVICES, datasheet
from eqfuse.cost.roofline import work
from eqfuse.emit.numpy.cost import figures
from eqfuse.emit.numpy.cost.calls import transposed_read
from eqfuse.ops import row
from eqfuse.ops.types import TensorType

CPU = DEVICES["cpu"]
N = 2048


def seconds(function: Callable[..., Any], *shapes: tuple[int, ...], device: Any = CPU) -> float:
    """Predicted for `function` as written."""
    graph = ef.trace(function, *[ef.spec(shape, np.float32) for shape in shapes])
    plan = ef.extract(ef.saturate(graph, laws="none"), target=device, extractor="greedy-priority")
    return plan.seconds


def busy(x: Any) -> Any:
    """Work enough that memory does not decide."""
    return np.tanh(np.tanh(np.tanh(x)))


PLAIN = seconds(lambda x, y: busy(x + y), (N, N), (N, N))
ACROSS = transposed_read(N * N, 4, CPU).seconds


def test_a_transposed_operand_costs_its_copy_by_blocks():
    costlier = seconds(lambda x, y: busy(x.T + y), (N, N), (N, N)) - PLAIN
    assert costlier == pytest.approx(ACROSS, rel=0.3)


def test_so_does_one_that_is_transposed_after_the_work():
    assert seconds(lambda x, y: busy(x + y).T + y, (N, N), (N, N)) > PLAIN + ACROSS


def test_two_transposes_cost_nothing():
    there_and_back = seconds(lambda x, y: busy(x.T + y.T).T * 1, (N, N), (N, N))
    assert there_and_back < PLAIN + ACROSS / 2


def test_a_copy_of_a_transposed_array_costs_more_than_its_bytes():
    copies = seconds(lambda x: x.T.reshape(-1), (N, N))
    assert copies > N * N * 8 / CPU.memory_bytes_per_second  # by blocks, on all threads


def test_swapped_axes_before_long_rows_cost_nothing():
    swapped = seconds(lambda x, y: x.transpose(0, 2, 1, 3) * y, (8, 512, 8, 64), (8, 8, 512, 64))
    plain = seconds(lambda x, y: x * y, (8, 8, 512, 64), (8, 8, 512, 64))
    assert swapped == pytest.approx(plain, rel=0.05)


def test_a_lone_sum_of_a_transposed_array_costs_no_copy():
    """NumPy walks the axes in the order in which they lie, on one thread."""
    one = CPU.one_thread()
    transposed, plain = (seconds(f, (N, N), device=one) for f in (lambda x: x.T.sum(), lambda x: x.sum()))
    assert transposed == pytest.approx(plain, rel=0.05)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_a_lone_reduction_of_a_large_array_is_shared_among_threads(axis: int | None):
    shared, alone = (seconds(lambda x: x.max(axis), (N, N), device=d) for d in (CPU, CPU.one_thread()))
    assert shared < 0.8 * alone


def test_a_gpu_stages_transposed_tiles_and_is_charged_nothing():
    a100 = datasheet("a100")
    plain = seconds(lambda x, y: busy(x + y), (N, N), (N, N), device=a100)
    assert seconds(lambda x, y: busy(x.T + y), (N, N), (N, N), device=a100) == plain


def test_a_stack_times_one_matrix_costs_what_the_folded_product_does():
    def product(*left: int) -> float:
        types = [TensorType(np.dtype(np.float32), s) for s in (left, (512, 256))]
        return work("matmul", (), TensorType(np.dtype(np.float32), (*left[:-1], 256)), types, CPU).seconds

    assert product(64, 2, 512) == product(128, 512)


def test_small_matrices_of_a_stack_cost_more_for_each_operation_than_a_large_one():
    stack, large = (TensorType(np.dtype("f8"), shape) for shape in ((1000, 3, 3), (300, 300)))
    for op in ("inv", "cholesky", "eigvalsh"):
        attrs = {"cholesky": (False,), "eigvalsh": ("L",)}.get(op, ())
        by_operation = []
        for t in (stack, large):
            out = row(op).type([t], attrs)
            done = work(op, attrs, out, [t], CPU)
            by_operation.append(done.whole / done.flops)
        assert by_operation[0] > 10 * by_operation[1]


def test_few_columns_cost_more_for_each_product():
    def rate(columns: int) -> float:
        types = [TensorType(np.dtype(np.float32), s) for s in ((4096, 1024), (1024, columns))]
        done = work("matmul", (), TensorType(np.dtype(np.float32), (4096, columns)), types, CPU)
        return done.flops / done.seconds

    assert rate(64) < 0.9 * rate(2048)  # measured on two cores of a Zen 5: 0.85


def test_a_small_array_with_gaps_that_every_row_reads_costs_loops_without_vectors_as_often():
    def paired(x: Any, y: Any) -> Any:
        return np.abs(x[:, :1] - y[:, 0])

    near, apart = (seconds(paired, (N, 1), (N, width)) for width in (1, 3))
    assert apart - near == pytest.approx(N * N * CPU.element_seconds("take", "float32"), rel=0.3)
    rows = seconds(lambda x, y: np.abs(x[:, :1] - y), (N, 3), (1, N))  # one element of a gap for each row
    assert rows == pytest.approx(near, rel=0.05)


def test_narrow_arrays_that_are_walked_by_columns_cost_loops_without_vectors():
    wide = seconds(lambda x, y: busy(x) * y, (N, N), (N, 1))
    narrow = seconds(lambda x, y: busy(x) * y, (N * N // 4, 4), (N * N // 4, 1))
    assert narrow - wide == pytest.approx(N * N * CPU.element_seconds("take", "float32"), rel=0.5)


def test_rows_with_gaps_between_them_are_begun_one_by_one():
    calls = 10_000 / figures.ELEMENTWISE_ROWS * CPU.call_seconds
    whole = seconds(lambda x, y: x + y, (10_000, 6), (10_000, 6))
    rows = seconds(lambda x, y: x[:, :6] + y, (10_000, 7), (10_000, 6))
    assert rows == pytest.approx(whole + calls, rel=0.2)
    assert seconds(lambda x, y: x[1:] + y, (10_001, 6), (10_000, 6)) == pytest.approx(whole, rel=0.05)


def test_a_copy_takes_as_long_as_its_runs_take_to_begin():
    begun = 10_000 / figures.COPIED_RUNS * CPU.call_seconds
    for function in (lambda x: np.concatenate([x, x], axis=1), lambda x: np.pad(x, ((0, 0), (1, 0)))):
        assert seconds(function, (10_000, 6)) > begun
    assert seconds(lambda x: np.pad(x, ((1, 1), (0, 0))), (10_000, 6)) < begun


def test_a_product_of_few_columns_is_short_and_one_of_more_work_is_not():
    def taken(rows: int, depth: int, columns: int) -> float:
        return seconds(lambda a, b: a @ b, (rows, depth), (depth, columns)) - CPU.call_seconds

    for rows, depth, columns in [(20_000, 6, 6), (6, 20_000, 6), (20_000, 2, 3)]:
        pairs = depth * -(-rows // figures.SHORT_ROWS) * figures.SHORT_ROWS * 16
        most = 1.5 * CPU.threads * pairs * CPU.element_seconds("short_product", "float32")
        assert taken(rows, depth, columns) <= most
    assert taken(40_000, 8, 8) > 3 * taken(10_000, 8, 8)  # measured on two cores of a Zen 5: 3.2


def test_a_stack_of_products_of_few_rows_costs_the_copies_of_its_right_operands() -> None:
    def taken(rows: int, columns: int) -> float:
        return seconds(lambda a, b: a @ b, (rows, 32), (8, 32, columns))

    assert taken(16, 12_544) > 1.3 * taken(1_568, 128)  # of as many operations; measured: 1.4 to 2.7


def test_a_matrix_times_a_vector_costs_more_for_each_row_the_shorter_rows_are():
    def taken(rows: int, columns: int) -> float:
        return seconds(lambda a, b: a @ b, (rows, columns), (columns, 1))

    assert taken(20_000, 4) > 3 * taken(1_000, 80)
