"""Results that pass by the caches in C: which do, the same values as otherwise, what they cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.workloads import flux_limited, softmax
from eqfuse.emit.c.kernels import Module, loaded, module_text
from eqfuse.emit.c.rates import traffic_of
from eqfuse.emit.c.schedule import LoopsSchedule, loops_schedule
from eqfuse.emit.c.streaming import HAS_STREAM
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C, emitted, run_all
from tests.support.kernels import data

NEAR = replace(C, levels=((1 << 12, 4e11), (1 << 16, 2e11), (1 << 40, 2e10)))  # what exceeds 64 KiB is far
pytestmark = pytest.mark.skipif(not HAS_STREAM, reason="x86 streams results")


def two_results(x: Any) -> Any:
    return x * 2 + 1, x > 0


def of_other_widths(x: Any) -> Any:
    return np.tanh(x).astype(np.float64), (x * 3).astype(np.float16), x.astype(np.int8)


def padded(x: Any) -> Any:
    return np.pad(x, 1) * 2


def shifted(x: Any) -> Any:
    return np.roll(x, 3, 1) - x


def gathered(x: Any) -> Any:
    return x[np.arange(x.shape[0])[::-1] // 2] + 1


PROGRAMS = {
    two_results: ("map", (70_003,)), of_other_widths: ("map", (77, 1001)), padded: ("map", (63, 1301)),
    shifted: ("map", (61, 1027)), gathered: ("map", (90, 999)), flux_limited: ("map", (40, 1311)),
    softmax: ("row", (60, 1003)),
}  # fmt: skip


def graph_of(function: Any) -> tuple[str, Graph]:
    kind, shape = PROGRAMS[function]
    return kind, ef.trace(function, ef.spec(shape, np.float32))


@needs_compiler
def test_streamed_results_are_those_of_the_caches() -> None:
    graphs = [graph_of(f) for f in PROGRAMS]
    arrays = [data(graph) for _, graph in graphs]
    plain, streamed = ([emitted(kind, graph, device) for kind, graph in graphs] for device in (C, NEAR))
    assert all(k.schedule.streamed and "eqf_stream(&" in k.text.source for k in streamed)
    assert not any(k.schedule.streamed or "eqf_stream" in k.text.source for k in plain)
    answers = zip(run_all(plain, arrays), run_all(streamed, arrays), strict=True)
    for (_, graph), given, (one, other) in zip(graphs, arrays, answers, strict=True):
        for a, b, want in zip(one, other, evaluate(graph, given), strict=True):
            assert a.tobytes() == b.tobytes()
            np.testing.assert_allclose(b.astype(float), want.astype(float), rtol=1e-2, atol=1e-5)


@needs_compiler
def test_a_result_may_begin_and_end_within_a_line_of_memory_and_nothing_beside_it_is_written() -> None:
    kind, graph = graph_of(two_results)
    kernel = emitted(kind, graph, NEAR)
    (given,), (n,) = data(graph), PROGRAMS[two_results][1]
    room, flags = np.full(n + 32, 7, np.float32), np.full(n + 96, 3, np.uint8)
    function = loaded([Module(module_text([kernel]), [kernel])])[kernel.name]
    for begin in (0, 1, 7, 16):
        room[:], flags[:] = 7, 3
        kernel.called(function, ()).run([room[begin : begin + n], flags[begin : begin + n].view(bool)], [given])
        np.testing.assert_array_equal(room[begin : begin + n], given * 2 + 1)
        assert (room[:begin] == 7).all() and (room[begin + n :] == 7).all()
        assert (flags[:begin] == 3).all() and (flags[begin + n :] == 3).all()


def test_large_results_of_kernels_that_exceed_the_last_cache_stream_and_no_others() -> None:
    def streamed(function: Any, *shapes: tuple[int, ...]) -> set[int]:
        schedule = loops_schedule(ef.trace(function, *(ef.spec(s, np.float32) for s in shapes)), NEAR)
        assert isinstance(schedule, LoopsSchedule)
        return set(schedule.streamed)

    assert streamed(lambda x: x + 1, (10_000,)) == {0}
    assert streamed(lambda x: x + 1, (6_000,)) == set()  # 48 KB
    assert streamed(lambda x, y: (x + y, x > y), (6_000,), (6_000,)) == {0}  # the second is small
    assert streamed(lambda x: x[:, ::2] + 1, (100, 1000)) == {0}
    assert streamed(lambda x: x.T + 1, (100, 1000)) == set()  # its rows are short
    assert streamed(lambda x: x.sum(0, keepdims=True), (100, 1000)) == set()


def test_streamed_bytes_are_priced_as_not_read_before() -> None:
    _, graph = graph_of(padded)
    schedule = loops_schedule(graph, NEAR)
    assert isinstance(schedule, LoopsSchedule) and schedule.streamed_bytes == graph.outputs[0].type.nbytes
    assert "results that pass by the caches: 1" in str(schedule)
    assert traffic_of(300, 300, 300) < traffic_of(300, 300) and traffic_of(0, 600, 600) == traffic_of(600, 0)
