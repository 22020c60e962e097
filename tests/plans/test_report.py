"""The report counts kernels, bytes, merged accesses, shares of the peaks, and the ratios against unfused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.suite import GRAPHS, Case
from eqfuse.cost.profiles import DEVICES
from eqfuse.plan.plan import Kernel
from eqfuse.runtime import disk_cache
from eqfuse.show.explain import explain, why_not_fused
from eqfuse.summary import duration, quantity
from tests.support.c_kernels import needs_compiler
from tests.support.c_target import C
from tests.support.some import some

M, N, K = 64, 48, 32
F32 = np.float32


def linear_relu(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.maximum(x @ w + b, 0)


SPECS = (ef.spec((M, K), F32), ef.spec((K, N), F32), ef.spec(N, F32))


def chain(x: np.ndarray) -> np.ndarray:
    return np.tanh(np.exp(-x) * 2 + 1)


def test_fusing_bias_and_relu_into_a_product_saves_two_intermediates() -> None:
    """Unfused minus fused is two arrays, each written once and read once. The memory saving is that over the total."""
    r = ef.compile(linear_relu, *SPECS, target="numpy", laws="none").report
    assert (r.unfused_kernels, r.n_kernels) == (3, 1)
    assert r.unfused_bytes_moved - r.bytes_moved == 4 * M * N * 4
    assert r.memory_saving == pytest.approx(4 * M * N * 4 / r.unfused_bytes_moved)


def test_a_pure_chain_is_wholly_fused() -> None:
    """Five operators, five kernels and eight array accesses become one, one and none."""
    r = ef.compile(chain, ef.spec(1 << 20, F32), laws="none").report
    (kernel,) = r.kernels
    assert r.fusion_rate == 1.0
    assert kernel.kind == "map" and len(kernel.ops) == r.unfused_kernels
    assert kernel.accesses_merged == 2 * (len(kernel.ops) - 1)
    assert kernel.bytes_moved == 2 * 4 * (1 << 20)


def test_fusion_alone_changes_no_flop() -> None:
    graph = ef.trace(chain, ef.spec(1 << 20, F32))
    fused, unfused = (ef.compile(graph, laws="none", extractor=e).report for e in ("flow", "unfused"))
    assert fused.flops == unfused.flops
    assert fused.bytes_moved < unfused.bytes_moved


def test_both_senses_of_speed_up_are_reported() -> None:
    """The time ratio is fused over unfused time; the speed-up is its inverse."""
    r = ef.compile(chain, ef.spec(1 << 22, F32)).report
    assert r.time_ratio == pytest.approx(r.predicted_seconds / r.unfused_seconds)
    assert r.speedup == pytest.approx(1 / r.time_ratio)
    assert r.speedup > 1


@pytest.mark.parametrize(("operator", "flops", "moved"), [("add", 1, 12), ("relu", 1, 8)])
def test_intensity_of_single_operators(operator: str, flops: int, moved: int) -> None:
    """Flops over bytes, by hand."""
    specs = [ef.spec(1000, F32)] * (2 if operator == "add" else 1)
    (kernel,) = ef.compile(np.add if operator == "add" else ef.relu, *specs).report.kernels
    assert kernel.intensity == pytest.approx(flops / moved)


def test_intensity_of_a_product() -> None:
    (kernel,) = ef.compile(np.matmul, *SPECS[:2]).report.kernels
    assert kernel.intensity == pytest.approx(2 * M * N * K / (4 * (M * K + K * N + M * N)))


@pytest.mark.parametrize(("dtype", "rate"), [("float32", 19.5e12), ("float16", 312e12)])
def test_the_balance_of_a_large_product_is_the_rate_over_the_bandwidth(dtype: str, rate: float) -> None:
    """Of an A100 with 80 GB: 19.5 or 312 Tflop/s over 2,039 GB/s."""
    square = ef.spec((8192, 8192), dtype)
    (kernel,) = ef.compile(np.matmul, square, square, target="cuda:a100").report.kernels
    assert kernel.balance == pytest.approx(rate / 2039e9, rel=0.3)
    assert kernel.intensity > kernel.balance and kernel.bound == "compute"


def test_a_product_of_widened_operands_has_no_more_than_the_rate_of_tensor_cores() -> None:
    half = ef.spec((4096, 4096), np.float16)
    (kernel,) = ef.compile(lambda a, b: a.astype(F32) @ b.astype(F32), half, half, target="cuda:a100").report.kernels
    assert 0.9 < kernel.peak_share <= 1


@pytest.mark.parametrize("target", ["numpy", pytest.param("c", marks=needs_compiler), "cuda:a100"])
@pytest.mark.parametrize("case", some(GRAPHS.values(), 4), ids=lambda case: case.id)
def test_no_kernel_has_more_than_there_is(case: Case, target: str) -> None:
    """Loops in C are priced at up to 1.06 times the rate of BLAS, and bandwidths are those of copies: bytes that are
    only read take two thirds of the time."""
    function, types = case.program(small=False)
    graph = ef.trace(function, *[ef.spec(t.shape, t.dtype) for t in types])
    profile = {"numpy": DEVICES["cpu"], "c": C, "cuda:a100": DEVICES["a100"]}[target]  # the same on every machine
    for k in ef.compile(graph, target=profile, extractor="greedy-priority", laws="none").report.kernels:
        assert 0 <= k.peak_share <= 1.1 and 0 <= k.bandwidth_share <= (1.55 if target == "c" else 1.05), k
        assert k.bound != "memory" or k.bandwidth_share > 0.9 * k.peak_share, k


def test_a_kernel_that_is_bound_by_memory_has_nearly_all_its_bandwidth() -> None:
    (kernel,) = ef.compile(lambda x: x + 2, ef.spec(1 << 26, F32), target="cuda:3090ti").report.kernels
    assert kernel.bound == "memory" and kernel.intensity < kernel.balance
    assert 0.9 < kernel.bandwidth_share <= 1


def test_fusing_raises_the_intensity() -> None:
    r = ef.compile(chain, ef.spec(1 << 22, F32), laws="none").report
    assert r.unfused_flops == r.flops
    assert r.unfused_intensity == pytest.approx(r.intensity / len(r.kernels[0].ops))


def test_the_stages_and_the_search_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "find", lambda key, graph: None)  # another worker may have kept the plan
    r = ef.compile(chain, ef.spec(1000, F32)).report
    assert {"saturate", "extract", "emit"} <= set(r.seconds)
    assert r.stop_reason in ("saturated", "nodes", "seconds", "rounds")
    assert r.egraph_nodes >= 5


def test_an_explanation_names_kernels_totals_and_reasons() -> None:
    def two_sums(x: np.ndarray) -> np.ndarray:
        return np.cumsum(np.exp(x), axis=1) + 1

    program = ef.compile(two_sums, ef.spec((1024, 1024), F32))
    text = str(program.explain())
    assert "cumsum" in text and "library" in text
    assert "Not fused:" in text and "speed-up" in text and "memory saving" in text
    assert why_not_fused(program.plan)


def test_measured_times_are_a_column_on_request() -> None:
    program = ef.compile(chain, ef.spec(1000, F32))
    assert "measured" not in str(explain(program.report, program.plan))
    assert "1.5 ms" in str(explain(program.report, program.plan, measured=[1.5e-3] * program.report.n_kernels))


def test_shares_of_the_peaks_are_those_of_measured_times_where_there_are_some() -> None:
    program = ef.compile(chain, ef.spec(1 << 22, F32))
    (kernel,) = program.report.kernels
    shares = f"{100 * kernel.bandwidth_share:.0f} / {100 * kernel.peak_share:.0f}"
    halves = f"{50 * kernel.bandwidth_share:.0f} / {50 * kernel.peak_share:.0f}"
    assert f" {shares} " in str(explain(program.report, program.plan))
    assert f" {halves} " in str(explain(program.report, program.plan, measured=[2 * kernel.predicted_seconds]))


def test_with_arguments_the_program_is_timed_beside_numpy() -> None:
    x = np.ones((300, 300), F32)
    program = ef.compile(chain, x)
    assert "in NumPy, call by call" in str(program.explain(x))
    assert "in NumPy, call by call" not in str(program.explain())
    loop = ef.compile(lambda x: ef.fori_loop(0, 3, lambda i, c: np.tanh(c), x), x)
    assert "in NumPy, call by call" not in str(loop.explain(x)), "its steps would be counted, not timed"


def test_a_comparison_has_speed_up_and_what_is_less() -> None:
    program = ef.compile(chain, ef.spec(1000, F32))
    text = str(explain(program.report, program.plan, against=(4e-3, 1e-3)))
    assert "4 ms in NumPy, call by call → 1 ms measured in turn, speed-up 4.00×, 75 % less" in text


def test_a_kernel_without_elements_is_explained() -> None:
    program = ef.compile(lambda x: x[:0] + 1, ef.spec((10, 10), F32), target="c")
    assert "0: nothing to compute" in str(program.explain())


def test_a_refusal_of_the_kinds_is_quoted() -> None:
    def stays_apart(x: np.ndarray) -> np.ndarray:
        return np.cumsum(x * 2, axis=0)

    program = ef.compile(stays_apart, ef.spec((512, 512), F32))
    ((producer, consumer, reason),) = why_not_fused(program.plan)
    assert (producer, consumer) == (0, 1)
    assert reason


def test_what_could_be_fused_but_is_costlier_says_both_prices() -> None:
    def linear(x: np.ndarray) -> np.ndarray:
        return np.exp(x) * 2

    program = ef.compile(linear, ef.spec((512, 512), F32), extractor="unfused", laws="none")
    ((_, _, reason),) = why_not_fused(program.plan)
    assert reason.startswith("one map kernel could hold both: predicted")


def test_reasons_take_no_longer_for_each_kernel_of_a_larger_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def chain_of(count: int) -> ef.Program:
        def applied(x: np.ndarray) -> np.ndarray:
            for i in range(count):
                x = np.sin(x) if i % 2 else np.cumsum(x, axis=0)
            return x

        return ef.compile(applied, ef.spec((4, 4), F32), extractor="unfused", laws="none")

    looked = 0
    whole = Kernel.is_view

    def counted(kernel: Kernel) -> bool:
        nonlocal looked
        looked += 1
        return whole.__get__(kernel)

    looks = []
    for program in map(chain_of, (20, 40)):
        with monkeypatch.context() as patch:
            patch.setattr(Kernel, "is_view", property(counted))
            looked = 0
            assert len(why_not_fused(program.plan)) == program.report.n_kernels - 1
            looks.append(looked)
    assert 0 < looks[1] < 2.5 * looks[0]


def test_html_needs_no_outside_file_and_escapes_names() -> None:
    program = ef.compile(chain, ef.spec(1000, F32))
    kernels = tuple(replace(k, kind="<b>") for k in program.report.kernels)
    html = explain(replace(program.report, kernels=kernels), program.plan)._repr_html_()
    assert "&lt;b&gt;" in html and "<b>" not in html and "src=" not in html


def test_quantities_and_durations_read_well() -> None:
    assert [quantity(n, "B") for n in (0, 999, 1000, 16_777_216)] == ["0 B", "999 B", "1 kB", "16.8 MB"]
    assert [duration(s) for s in (2e-7, 1e-3, 0.25, 12)] == ["0.2 µs", "1 ms", "250 ms", "12 s"]
