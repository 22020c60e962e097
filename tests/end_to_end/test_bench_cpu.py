"""The comparison of CPU workloads with other libraries, at small sizes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches import convolutions, cpu, limits, models, peers, products, timing
from eqfuse.benches.corpus.workloads import WORKLOADS, arguments, workload_in
from eqfuse.cost.profiles import DEVICES
from eqfuse.errors import EqfuseError
from tests.support.c_kernels import needs_compiler


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cpu.SIZES, "L2", 1 << 10)


def test_every_workload_computes_the_same_on_other_namespaces() -> None:
    for workload in WORKLOADS:
        arrays = arguments(workload, 1 << 10, np.float64)
        again = workload_in(workload.function, {"np": np})
        for got, wanted in zip(peers.results(again(*arrays)), peers.results(workload.function(*arrays)), strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_contenders_that_cannot_run_or_are_wrong_stand_aside(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(*_: Any) -> Any:
        raise ImportError("No module named 'jax'")

    wrong = lambda workload, arrays: lambda: workload.function(*arrays) * 1.1  # noqa: E731
    chosen = {name: peers.CONTENDERS[name] for name in ("NumPy", "eqfuse")} | {"JAX": missing, "torch": wrong}
    monkeypatch.setattr(cpu, "CONTENDERS", chosen)
    figures = cpu.measure(WORKLOADS[0], "L2", "float32", 0.01, mixed=True)
    row = {"name": "GELU", "size": "L2", "dtype": "float32"} | figures
    assert set(row["seconds"]) == {"NumPy", "eqfuse"}
    assert "No module" in row["aside"]["JAX"] and "wrong" in row["aside"]["torch"]
    off = row | {"seconds": {"NumPy": 1.0, "eqfuse": 0.5}, "priced": 1.5}
    cpu.show([row, off, off | {"seconds": {"NumPy": 1.0, "eqfuse": 0.4}, "priced": 0.4, "limit": 0.1}])
    shown = capsys.readouterr().out
    assert "GELU" in shown and "3.00!" in shown and " 25%  1.00" in shown and "prices of 3: Spearman" in shown
    assert cpu.lead(row) == pytest.approx(row["seconds"]["NumPy"] / row["seconds"]["eqfuse"])


def test_convolutions_are_listed_with_their_ratios_and_a_wrong_one_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def calls(case: convolutions.Conv, batch: int, threads: int) -> Any:
        if case.groups > 1:
            raise ValueError("the answer is off")
        return (lambda: None), (lambda: sum(range(1000)))

    monkeypatch.setattr(convolutions, "calls", calls)
    assert convolutions.run(["7 x 7"], 1, 0.001) == 0
    assert convolutions.run(["4 groups"], 1, 0.001) == 1
    shown = capsys.readouterr().out
    assert "3 → 64" in shown and "in geometric mean" in shown and "the answer is off" in shown


def test_no_plan_beats_its_limit_by_its_own_price() -> None:
    device = DEVICES["cpu"]
    x = np.ones(1 << 20, np.float32)
    plan = ef.compile(lambda x: np.exp(x) + 1, x, target=device).plan
    limit = limits.roofline_of(plan)
    assert limit.bytes == 2 * x.nbytes and limit.memory == pytest.approx(limit.bytes / device.bandwidth(limit.bytes))
    assert 0 < limit.seconds == max(limit.memory, limit.compute) <= plan.seconds


def test_a_product_counts_at_the_rate_of_blas() -> None:
    device = DEVICES["cpu"]
    limit = limits.roofline_of(ef.compile(lambda a: a @ a, np.ones((128, 128)), target=device).plan)
    assert limit.compute == pytest.approx(2 * 128**3 / device.contraction_flops("float64"))


def test_a_plot_without_its_library_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setattr(cpu, "apart", lambda *_: pytest.fail("measured"))
    with pytest.raises(EqfuseError, match=r"pip install 'eqfuse\[plot\]'"):
        cpu.main(["--plot", "roofline.png"])


def test_a_roofline_shows_each_workload(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure, path = limits.new_figure(11, 7), tmp_path / "roofline.png"
    row = {"name": "GELU", "size": "L2", "flops": 1e6, "bytes": 1e5, "taken": 1e-4}
    limits.draw(figure, path, DEVICES["cpu"], [row, row | {"name": "softmax", "size": "memory"}])
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert path.stat().st_size and {"GELU", "softmax"} <= set(texts)


def test_products_are_listed_with_their_ratios_and_a_wrong_one_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(timing, "PAUSE", 0.0)
    monkeypatch.setattr(timing, "WARM", 0.0)
    monkeypatch.setattr(products, "SHAPES", {"square": [(4, 5, 6, 1)], "batched": [(4, 5, 6, 2)]})
    assert products.run([], 1, 0.001) == 0
    monkeypatch.setattr(products, "CLOSE", -1)
    assert products.run(["square"], 1, 0.001) == 1
    shown = capsys.readouterr().out
    assert "2 of 4 x 5 x 6" in shown and "in geometric mean" in shown and "the answer is off" in shown


@pytest.mark.slow
@needs_compiler
def test_models_are_compared_and_a_loss_comes_first(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    torch = pytest.importorskip("torch")
    for library in ("onnx", "onnxruntime"):
        pytest.importorskip(library)
    from eqfuse.benches.corpus import torch_models

    small = torch_models.Model("small", lambda: torch.nn.Linear(4, 3), lambda batch: torch.randn(batch, 4))
    monkeypatch.setattr(torch_models, "MODELS", [small])
    row = {"name": "small", "batch": 2, "threads": 1} | models.measure("small", 2, 1, 0.01)
    assert row["error"] < models.CLOSE and set(row["seconds"]) == {"eqfuse", "onnxruntime", "torch"}
    worse = row | {"name": "slow", "seconds": row["seconds"] | {"eqfuse": 1.0}}
    models.show([row, worse, {"name": "lost", "batch": 1, "threads": 1, "failed": "why"}])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["lost", "slow", "small"]


def test_models_without_their_libraries_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(EqfuseError, match=r"pip install 'eqfuse\[bench\]'"):
        models.run([], threads=1, seconds=1.0, file=None)
