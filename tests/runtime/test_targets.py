"""A target is a package, its row, and rows of kinds that name what is in it: nothing else asks which one it is."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.cost.targets import TARGETS, Target
from eqfuse.kinds import KINDS, Kind
from eqfuse.kinds.schedule import Schedule
from eqfuse.runtime import disk_cache
from tests.support import toy_target
from tests.support.toy_target import SECONDS, ToySchedule

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "toy", Target("tests.support.toy_target", ("toy", "evaluator"), profiles=True))
    for kind in KINDS.values():
        _enter(monkeypatch, kind)


def _enter(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    """The toy target in the row of `kind`."""
    schedules = {**kind.schedules, "toy": "tests.support.toy_target:schedule"}
    emitters = {**kind.emitters, "toy": "tests.support.toy_target:closure"}
    monkeypatch.setitem(KINDS, kind.name, replace(kind, schedules=schedules, emitters=emitters))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("name", ["toy", "evaluator"])
def test_a_row_is_enough_to_compile_run_and_explain_for_a_target(name: str) -> None:
    program = ef.compile(softmax, X, target=name)
    np.testing.assert_allclose(program(X), softmax(X), rtol=1e-6)
    assert program.plan.device.target == "toy" and program.report.n_kernels == 1
    assert "def graph" in program.source()
    assert str(program.explain(X)).rstrip().endswith("interpreted")


@pytest.mark.parametrize("searched", [True, False])
def test_kernels_cost_what_the_schedules_of_the_target_say(searched: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "toy", replace(TARGETS["toy"], searches_schedules=searched))
    x = X[:, : 2 + searched]  # of a shape of its own, as plans are kept
    program = ef.compile(lambda x: softmax(x).sum(0), x, target="toy")
    np.testing.assert_allclose(program(x), softmax(x).sum(0), rtol=1e-6)
    assert program.report.predicted_seconds == pytest.approx(SECONDS * program.report.n_kernels)
    assert "interpreted, 5 operators" in str(program.explain())


def test_a_kind_without_a_schedule_for_the_target_has_no_kernels_there(monkeypatch: pytest.MonkeyPatch) -> None:
    rowless = replace(KINDS["row"], schedules={"numpy": KINDS["row"].schedules["numpy"]})
    monkeypatch.setitem(KINDS, "row", rowless)
    program = ef.compile(softmax, X, target="toy", laws="none")
    np.testing.assert_allclose(program(X), softmax(X), rtol=1e-6)
    assert {k.kind for k in program.plan.kernels} == {"reduce", "map"}
    with pytest.raises(ef.UnsupportedOp, match=r"the kind 'row' .* not on the toy target.*schedules={'toy': ...}"):
        rowless.schedule(program.plan.graph, program.plan.device)


def test_a_kind_without_an_emitter_for_the_target_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "map", replace(KINDS["map"], emitters={}))
    with pytest.raises(ef.UnsupportedOp, match=r"the kind 'map' .* not on the toy target.*emitters={'toy': ...}"):
        ef.compile(lambda x: np.exp(x) * 2, X, target="toy")


def test_a_target_in_no_row_of_a_kind_has_no_kernels_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, kind in KINDS.items():
        monkeypatch.setitem(KINDS, name, replace(kind, schedules={}))
    for function in (softmax, np.tanh):  # tanh, for which the toy target has no form, would be a library call
        with pytest.raises(ef.UnsupportedOp, match=r"no kind of kernel holds (max|tanh) on the toy target"):
            ef.compile(lambda x, function=function: function(x), X[:2, :3], target="toy")  # as plans are kept


@pytest.mark.parametrize("entry", ["device", "emits", "emit", "needs"])
def test_a_package_without_an_entry_point_is_no_target(entry: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType(f"toy_without_{entry}")
    vars(package).update({n: getattr(toy_target, n) for n in ("device", "emits", "emit", "needs") if n != entry})
    monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.setitem(TARGETS, "toy", Target(package.__name__, ("toy",)))
    with pytest.raises(ef.EqfuseError, match=f"toy_without_{entry} is no target: it has no {entry};"):
        ef.compile(np.exp, X, target=toy_target.device())


def test_a_row_is_enough_for_jit_and_for_a_limit_of_memory() -> None:
    np.testing.assert_allclose(ef.jit(softmax, target="toy")(X), softmax(X), rtol=1e-6)
    limited = ef.compile(softmax, X, target="toy", memory_limit=1 << 20)
    np.testing.assert_allclose(limited(X), softmax(X), rtol=1e-6)


def test_what_the_target_has_no_form_for_is_a_call_of_its_own() -> None:
    def f(x):
        return np.tanh(x * 2) + 1

    kinds = [k.kind for k in ef.compile(f, X, target="toy", laws="none").plan.kernels]
    assert kinds == ["map", "library", "map"]
    assert [k.kind for k in ef.compile(f, X, target="numpy", laws="none").plan.kernels] == ["map"]


def test_the_row_says_whether_a_kernel_is_priced_as_one_loop_or_as_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToySchedule, "price", Schedule.price)  # none of its own: the estimate stands
    program = ef.compile(softmax, X[:2], target="toy")
    monkeypatch.setitem(TARGETS, "toy", replace(TARGETS["toy"], calls=TARGETS["numpy"].calls))
    as_calls = ef.compile(softmax, X[:1], target="toy").report
    np.testing.assert_allclose(program(X[:2]), softmax(X[:2]), rtol=1e-6)
    launch, calls = program.plan.device.launch_seconds, len(program.report.kernels[0].ops)
    assert program.report.predicted_seconds < launch * 1.1
    assert as_calls.predicted_seconds > launch + calls * program.plan.device.call_seconds


def test_a_program_is_saved_with_its_target_and_refused_where_that_has_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ef.compile(softmax, X, target="toy").save(tmp_path / "program")
    np.testing.assert_allclose(ef.load(tmp_path / "program")(X), softmax(X), rtol=1e-6)
    monkeypatch.delitem(TARGETS, "toy")
    with pytest.raises(ef.EqfuseError, match="no target is named 'toy' here"):
        ef.load(tmp_path / "program")
    with pytest.raises(ef.TargetUnavailable, match="no target 'toy'; there are cpu, numpy, c, "):
        ef.compile(softmax, X, target="toy")


def test_plans_for_a_target_of_a_users_are_not_kept_across_processes() -> None:
    """Its code has no name that outlives the process."""
    graph = ef.trace(softmax, X)
    for target, kept in (("toy", False), ("numpy", True)):
        device = ef.compile(graph, target=target).plan.device
        assert (disk_cache.plan_key(graph, device, "strict", (), "flow", None, None).path is not None) == kept


def test_two_devices_of_one_kind_may_have_targets_of_their_own() -> None:
    toy, numpy = (ef.compile(softmax, X, target=t).plan.device for t in ("toy", "numpy"))
    assert toy.kind == numpy.kind == "cpu" and toy.target != numpy.target
