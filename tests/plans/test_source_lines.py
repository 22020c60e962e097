"""explain() says which of the user's lines each kernel computes, whatever laws and loops have made of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.suite import GRAPHS, Case
from eqfuse.runtime import disk_cache
from eqfuse.show.lines import kernel_lines
from tests.support.some import some

X = np.random.default_rng(0).normal(size=(60, 80))
HERE = Path(__file__).name


def lines_of(f: Callable[..., Any], *args: Any, **options: Any) -> list[str]:
    """Lines by kernel, counted from the first of `f`."""
    texts = kernel_lines(ef.compile(f, *args, **options).plan)
    first = f.__code__.co_firstlineno
    return [" ".join(str(n - first) for n in _numbers(text)) for text in texts]


def _numbers(text: str) -> list[int]:
    numbers: list[int] = []
    for part in text.removeprefix(f"{HERE}:").split(", "):
        begin, _, end = part.partition("–")
        numbers += range(int(begin), int(end or begin) + 1)
    return numbers


def two_kernels(x: Any, w: Any) -> Any:
    shifted = x + 1

    scaled = shifted * w
    ordered = np.sort(scaled, axis=0)
    y = np.exp(ordered)
    return y * 2


def test_a_kernel_computes_the_lines_between_what_it_reads_and_writes() -> None:
    assert lines_of(two_kernels, X, X[0], target="numpy") == ["1 3", "4", "5 6"]


def rewritten(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    total = e.sum(axis=1, keepdims=True)
    y = np.log(e / total)
    return np.sort(y, axis=0) * 1.0


def test_lines_whose_operators_laws_have_replaced_are_there() -> None:
    program = ef.compile(rewritten, X, target="numpy")
    operators = [op for k in program.report.kernels for op in k.ops]
    assert operators != [n.op for n in ef.trace(rewritten, X).operators], "laws have changed nothing"
    assert lines_of(rewritten, X, target="numpy") == ["1 2 3", "4"]


@pytest.mark.parametrize("case", some(GRAPHS.values(), 5), ids=lambda case: case.id)
def test_every_kernel_has_lines_or_is_for_one_that_has(case: Case) -> None:
    function, types = case.program(small=True)
    plan = ef.compile(function, *[ef.spec(t.shape, t.dtype) for t in types], target="cuda:a100").plan
    texts = kernel_lines(plan)
    assert all(texts) and any(".py:" in text for text in texts)


def stepped(x: Any) -> Any:
    s = np.sort(x, axis=0)
    y = np.empty_like(s)
    for i in range(len(s)):
        y[i] = np.exp(-s[i]) * i
    return np.sort(y, axis=1) * 2


def test_lines_around_and_in_a_loop_that_was_found_again_are_there() -> None:
    assert ef.compile(stepped, X, target="numpy").report.rolled
    first, *others = lines_of(stepped, X, target="numpy")
    assert first == "1" and {"4", "5"} <= set(" ".join(others).split())


def test_values_in_blocks_keep_their_lines() -> None:
    def step(x: Any, w: Any) -> Any:
        scores = x @ w
        e = np.exp(scores)
        return (e / e.sum(axis=1, keepdims=True)) @ w.T

    specs = ef.spec((2048, 64), np.float32), ef.spec((64, 2048), np.float32)
    program = ef.compile(step, *specs, target="numpy", memory_limit=1 << 20)
    assert program.report.n_kernels and kernel_lines(program.plan)
    assert HERE in str(program.explain())


def helper(x: Any) -> Any:
    return np.tanh(x)


def test_lines_of_functions_that_are_called_are_their_own() -> None:
    (text,) = kernel_lines(ef.compile(lambda x: helper(x) + 1, X).plan)
    assert text.startswith(f"{HERE}:") and inspect.getsourcelines(helper)[1] + 1 in _numbers(text)


def test_equal_steps_of_a_long_program_name_their_own_lines() -> None:
    def blocks(x: Any, w: Any) -> Any:
        x = np.tanh(x @ w)
        x = np.tanh(x @ w)
        return np.tanh(x @ w)

    found_lines = lines_of(blocks, ef.spec((512, 512)), ef.spec((512, 512)), target="numpy")
    assert [text.split()[-1] for text in found_lines if text][-1] == "3"
    assert {"1", "2", "3"} == set(" ".join(found_lines).split())


@pytest.mark.parametrize("target", ["c", "cuda:a100"])
def test_every_target_has_them(target: str) -> None:
    assert set(" ".join(lines_of(two_kernels, X, X[0], target=target)).split()) == {"1", "3", "4", "5", "6"}


def test_they_stand_in_an_explanation_after_a_plan_came_from_the_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EQFUSE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(disk_cache, "_memory", {})
    wanted = lines_of(two_kernels, X, X[0], target="numpy")
    monkeypatch.setattr(disk_cache, "_memory", {})
    program = ef.compile(two_kernels, X, X[0], target="numpy")
    assert "cache" in program.report.seconds
    assert kernel_lines(program.plan)[2] in str(program.explain())
    assert lines_of(two_kernels, X, X[0], target="numpy") == wanted


def test_a_loaded_program_and_a_graph_of_text_have_none(tmp_path: Path) -> None:
    program = ef.compile(two_kernels, X, X[0])
    program.save(tmp_path / "program")
    for other in (ef.load(tmp_path / "program"), ef.compile(ef.parse(str(ef.trace(two_kernels, X, X[0]))))):
        assert kernel_lines(other.plan) == ()
        assert "Which lines" not in str(other.explain())
