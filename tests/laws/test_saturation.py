"""Saturation: laws fire and decline, budgets stop it for a stated reason, and its result is the same everywhere."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from eqfuse.benches.corpus.suite import chain
from eqfuse.budget import Allowance, Budget
from eqfuse.demo.programs import transformer
from eqfuse.egraph.engine import WIDEST, Engine
from eqfuse.egraph.saturate import BackOff, reachable, saturate
from eqfuse.egraph.space import Segment
from eqfuse.errors import LawError, OptionError
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.functions import batch_norm, conv, max_pool, relu, softmax
from eqfuse.ir.graph import Graph, input_node, node
from eqfuse.ops.types import TensorType
from eqfuse.rewrites import EXACT, REASSOCIATES, Law, guard, laws_named, tensors
from tests.programs.geometry import quaternions

F = np.float32
x, y, z = tensors("x y z")


def small() -> Graph:
    return trace(lambda a, b: (a * b + a * 3.0) / 1.0, spec((2, 3), F), spec((3,), F))


@pytest.mark.slow
def test_a_law_fires_and_declines_by_its_guard() -> None:
    wide = Law("wide", x + y, y + x, (guard("x has rank 2", lambda t: t.rank == 2, x),), EXACT)
    for shape, fires in [((2, 3), True), ((3,), False)]:
        space = saturate(trace(lambda a: a + 1.0, spec(shape, F)), laws=[wide])
        assert ("wide" in space.laws_fired) is fires


def test_a_match_whose_made_side_has_another_type_is_declined() -> None:
    forgetful = Law("forgetful", x + y, x, exactness=REASSOCIATES, check=False)  # and ill-typed when y broadcasts x
    space = saturate(trace(lambda a, b: a + b, spec((1, 3), F), spec((2, 3), F)), laws=[forgetful])
    assert not space.laws_fired


def test_stop_reason_saturated_within_the_rounds() -> None:
    space = saturate(small())
    assert space.stop_reason == "saturated" and space.rounds < 12


@pytest.mark.parametrize(
    "budget, reason",
    [(Budget(rounds=1), "rounds"), (Budget(nodes=5), "nodes"), (Budget(seconds=0.0), "seconds")],
    ids=["rounds", "nodes", "seconds"],
)
def test_budgets_stop_saturation_and_keep_what_was_found(budget: Budget, reason: str) -> None:
    space = saturate(small(), budget=budget)
    assert space.stop_reason == reason
    assert space.n_nodes >= len(small().nodes)


def test_distribution_is_left_out_unless_named() -> None:
    graph = trace(lambda a, b, c: a @ (b + c), spec((2, 3), F), spec((3, 4), F), spec((3, 4), F))
    assert "distribute_left" not in saturate(graph, numerics="approximate").laws_fired
    assert "distribute_left" in saturate(graph, laws=["all", "distribution"], numerics="approximate").laws_fired


def test_unknown_laws_and_numerics_name_what_there_is() -> None:
    with pytest.raises(LawError, match="families"):
        saturate(small(), laws="algbra")
    with pytest.raises(OptionError, match="strict, reassociate, approximate"):
        saturate(small(), numerics="fast")


def test_no_laws_give_the_program_itself() -> None:
    graph = small()
    (segment,) = saturate(graph, laws="none").segments
    assert segment.n_nodes == len(segment.graph.nodes) == len(segment.classes)


def test_constants_and_known_inputs_make_known_classes() -> None:
    a, w = input_node("a", TensorType(np.dtype(F), (2, 3))), input_node("w", TensorType(np.dtype(F), (3, 3)), True)
    graph = Graph((a, w), (node("matmul", (a, node("exp", (w,)))),))
    (segment,) = saturate(graph).segments
    known = {n.op for c in segment.classes if c.constant for n in c.nodes}
    assert "exp" in known and "matmul" not in known


RNG = np.random.default_rng(0)
WEIGHT, BIAS = RNG.standard_normal((6, 6)).astype(F), RNG.standard_normal(6).astype(F)
SHIFT = BIAS[:4]
FILTERS = RNG.standard_normal((4, 3, 3, 3)).astype(F)

PROGRAMS: dict[str, tuple] = {
    "mlp": (lambda a: np.tanh((a * BIAS) @ WEIGHT + BIAS) @ WEIGHT, (4, 6)),
    "attention": (lambda q, k, v: softmax(q @ k.transpose(0, 2, 1) / 2.0) @ v, (2, 4, 3), (2, 4, 3), (2, 4, 3)),
    "broadcast gain": (lambda a, r: (a * BIAS * r) @ WEIGHT, (4, 1), (4, 6)),
    "square broadcast": (lambda a, r: (a * r) @ WEIGHT / r, (6, 6), (6,)),
    "means": (lambda a: (a @ WEIGHT + BIAS).mean(0) + (a - a.mean(-1, keepdims=True)).mean(), (6, 6)),
    "layout": (lambda a, b: np.maximum(a.T + b, 0).T.reshape(3, 8)[1:, ::2] * 2.0, (4, 6), (4,)),
    "network": (
        lambda a: max_pool(relu(batch_norm(conv(a, FILTERS, padding=1), SHIFT, SHIFT**2, SHIFT, SHIFT)), 2),
        (2, 3, 6, 6),
    ),
    "powers": (lambda a, b: (a**3 + a**2 * b) / (b * b + 1.0), (3, 4), (4,)),
}  # fmt: skip


def class_values(segment: Segment, arrays: list[np.ndarray]) -> None:
    """Evaluate every node of every class in float64: members of a class must agree."""
    values: dict[int, np.ndarray] = {}
    by_name = dict(zip((n.attr("name") for n in segment.graph.inputs), arrays, strict=True))
    waiting = [(eclass, n) for eclass, c in enumerate(segment.classes) for n in c.nodes]
    while waiting:
        later = []
        for eclass, n in waiting:
            if any(a not in values for a in n.args):
                later.append((eclass, n))
                continue
            if n.op == "input":
                value = by_name[n.attr("name")]
            elif n.op == "const":
                array = n.attr("value").array
                value = array.astype(np.float64) if array.dtype.kind == "f" else array
            else:
                value = n.row.meaning(*(values[a] for a in n.args), *n.attrs)
            assert value.shape == segment.classes[eclass].type.shape
            np.testing.assert_allclose(values.setdefault(eclass, value), value, rtol=1e-4, atol=1e-5, err_msg=str(n))
        assert len(later) < len(waiting)
        waiting = later


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("laws", ["all", ["all", "distribution"]], ids=["default", "with distribution"])
def test_all_members_of_a_class_agree_on_data(program: tuple, laws: Any) -> None:
    function, *shapes = program
    graph = trace(function, *(spec(s, F) for s in shapes))
    space = saturate(graph, laws=laws, budget=Budget(nodes=2000, rounds=6))
    for segment in space.segments:
        class_values(segment, [RNG.standard_normal(n.shape) for n in segment.graph.inputs])


def test_twelve_blocks_saturate_in_few_distinct_segments() -> None:
    function, arguments = transformer(batch=1, tokens=8, width=12, heads=3, blocks=12).build(np.float32)
    space = saturate(trace(function, *arguments), budget=Budget(nodes=20_000))
    assert space.stop_reason == "saturated"
    assert len(space.segments) < len(space.uses)


def affine(x: Any) -> Any:
    for _ in range(15):
        x = (x * 1.5 + 0.3) / 2.0 - 0.1
    return x


def polynomial(x: Any) -> Any:
    r = x * 0.5
    for i in range(12):
        r = r * x + float(i)
    return r


def product_chain(*factors: Any) -> Any:
    r = factors[0]
    for f in factors[1:]:
        r = r @ f * 2.0
    return r


def sum_of(*terms: Any) -> Any:
    return functools.reduce(operator.add, terms)


@pytest.mark.parametrize("nodes", [100, 1000])
def test_a_round_of_laws_that_expand_ends_within_the_budget_of_nodes(nodes: int) -> None:
    graph = trace(sum_of, *[spec((8, 8), F)] * 12)
    space = saturate(graph, laws=["all", "distribution"], numerics="approximate", budget=Budget(60, nodes))
    assert space.stop_reason == "nodes"
    assert max(space.segments[0].nodes_per_round) <= nodes


def test_the_clock_also_ends_a_round_that_has_begun() -> None:
    graph = trace(sum_of, *[spec((8, 8), F)] * 6)
    engine = Engine()
    engine.add(graph.nodes)
    engine.load(reachable(graph, laws_named("distribution")))
    engine.round(allowance=Allowance(until=0.0))
    assert engine.cut == "seconds" and engine.size == len(graph.nodes)


@pytest.mark.parametrize("limit", [{"allowance": Allowance(until=0.0)}, {"room": 0}], ids=["clock", "nodes"])
def test_a_match_that_a_limit_declined_is_offered_again(limit: dict[str, Any]) -> None:
    graph = trace(sum_of, *[spec((8, 8), F)] * 6)
    whole, cut = (Engine() for _ in range(2))
    for engine in (whole, cut):
        engine.add(graph.nodes)
        engine.load(reachable(graph, laws_named(["add_commutes", "associate_sum"])))
    cut.round(**limit)
    assert cut.cut is not None
    for engine in (whole, cut):
        while engine.round().updated:
            pass
    assert cut.size == whole.size > 100


def test_products_of_one_operand_are_merged_when_there_is_no_room_for_more_nodes() -> None:
    graph = trace(lambda x, v, w: (x @ v) + (x @ w), spec((64, 8), F), *[spec((8, 8), F)] * 2)
    (segment,) = saturate(graph, budget=Budget(nodes=0)).segments
    assert segment.stop_reason == "nodes"
    assert any(n.op == "matmul" and c.type.shape == (64, 16) for c in segment.classes for n in c.nodes)


def test_a_law_that_rests_matches_later_what_it_missed() -> None:
    graph = trace(sum_of, *[spec((8, 8), F)] * 4)
    engine = Engine()
    engine.add(graph.nodes)
    engine.load(reachable(graph, laws_named(["add_commutes", "associate_sum"])))
    rest = frozenset({"associate_sum", "associate_sum~"})
    assert "associate_sum" not in engine.round(resting=rest).matches
    engine.round(resting=rest)
    assert engine.round().matches["associate_sum"] >= 2  # (a + b) + c as c + (a + b), and the like


def test_a_law_rests_longer_each_time_and_may_then_match_more_often() -> None:
    back_off = BackOff()
    back_off.note("law", 1500, round_number=1, size=10)
    assert [round_number for round_number in range(2, 9) if back_off.resting(round_number)] == [2, 3]
    back_off.note("law", 1500, round_number=4, size=10)
    assert not back_off.resting(5)
    back_off.note("law", 2500, round_number=5, size=10)
    assert [round_number for round_number in range(6, 12) if back_off.resting(round_number)] == [6, 7, 8, 9]
    back_off.wake()
    assert not back_off.resting(6)


def test_resting_laws_do_not_count_as_saturation() -> None:
    graph = trace(functools.partial(functools.reduce, operator.matmul), [spec((8, 8), F)] * 14)
    (segment,) = saturate(graph, laws="contractions", budget=Budget(nodes=20_000)).segments
    n = 14
    assert segment.stop_reason == "saturated"
    assert segment.n_nodes == n + (n**3 - n) // 6  # every split of every interval of factors


@pytest.mark.slow
def test_a_search_grows_to_three_times_the_program_unless_a_number_of_nodes_is_given() -> None:
    graph = trace(functools.partial(functools.reduce, operator.matmul), [spec((8, 8), F)] * 40)
    (small,) = saturate(graph, laws="contractions").segments
    assert small.stop_reason == "nodes" and 800 < max(small.nodes_per_round) <= 2 * 1000
    long = trace(functools.partial(functools.reduce, operator.matmul), [spec((32, 32), F)] * 1200)
    (large,) = saturate(long, laws="contractions", budget=Budget(seconds=60)).segments
    assert large.stop_reason == "nodes" and 5000 < max(large.nodes_per_round) <= 2 * 3 * 2399


def test_a_search_is_charged_the_nodes_that_it_makes() -> None:
    """Most matches of a law that is applied again and again make what is there."""
    n = 14
    graph = trace(functools.partial(functools.reduce, operator.matmul), [spec((8, 8), F)] * n)
    (segment,) = saturate(graph, laws="contractions", budget=Budget(nodes=2500)).segments
    assert segment.stop_reason == "saturated"
    assert segment.n_nodes == n + (n**3 - n) // 6  # every split of every interval of factors


@pytest.mark.slow
def test_a_search_that_a_limit_of_nodes_cuts_again_and_again_ends() -> None:
    """Quaternions have 1,600 nodes after four rounds, and as many after sixteen, each cut short."""
    rows = spec((100, 4), np.float64)
    (segment,) = saturate(trace(quaternions, rows, rows, 0.25), budget=Budget(60, nodes=2500)).segments
    assert segment.stop_reason == "nodes" and segment.rounds < 8
    assert 2 * max(segment.nodes_per_round) > 2500


def test_what_is_equal_to_its_own_argument_is_not_rewritten_without_end() -> None:
    known = np.linspace(1.0, 2.0, 8192, dtype=np.float32)  # too large to be folded with the 1 before it is met

    def twice_idle(x: Any) -> Any:
        return x * np.float32(1.0) * known * np.float32(1.0) + x

    (segment,) = saturate(trace(twice_idle, spec((8192,), F))).segments
    assert segment.stop_reason == "saturated" and segment.n_nodes < 30


@pytest.mark.parametrize("operators", [250, 500])
def test_long_pointwise_chains_saturate(operators: int) -> None:  # N11
    graph = trace(lambda a: chain(a, operators), spec((8, 8), F))
    space = saturate(graph, budget=Budget(nodes=20_000))
    assert space.stop_reason == "saturated"
    assert space.n_nodes < 2 * len(graph.nodes)


@pytest.mark.parametrize(
    "function, arguments", [(affine, 1), (polynomial, 1), (product_chain, 4)], ids=["affine", "polynomial", "products"]
)
def test_default_laws_stay_small_on_long_chains(function: Any, arguments: int) -> None:
    graph = trace(function, *[spec((8, 8), F)] * arguments)
    space = saturate(graph, budget=Budget(nodes=20_000))
    assert space.n_nodes < 25 * len(graph.nodes)


def test_constants_fold_and_meet() -> None:
    graph = trace(lambda a: a * 2.0 * 3.0 + 1.0 + 4.0, spec((2, 3), F))
    (segment,) = saturate(graph).segments
    constants = {n.attr("value").array.item() for c in segment.classes for n in c.nodes if n.op == "const"}
    assert {6.0, 5.0} <= constants


def _sent(graph: Graph) -> list[str]:
    """The commands that egglog is sent for `graph` and its facts."""
    engine = Engine()
    sent: list[str] = []
    declarations = engine._declarations
    once, again = declarations.run_once, declarations.run

    def run_once(lines: Sequence[str]) -> None:
        sent.extend(lines)
        once(lines)

    def run(*texts: str) -> list[Any]:
        sent.extend(texts)
        return again(*texts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(declarations, "run_once", run_once)
        patch.setattr(declarations, "run", run)
        engine.add((*graph.inputs, *graph.nodes))
        engine.fold_constants()
        engine.track_ranges()
        engine.settle()
    return sent


def _stacked(count: int) -> Graph:
    return trace(lambda a: np.stack([a[i] + 1.0 for i in range(count)]), spec((count, 3), F))


def _joined(count: int) -> Graph:
    return trace(lambda *a: np.concatenate([x * float(i) for i, x in enumerate(a)]), *[spec((3,), F)] * count)


@pytest.mark.parametrize("program", [_stacked, _joined])
def test_what_egglog_is_sent_grows_no_faster_than_the_program(program: Callable[[int], Graph]) -> None:
    few, many = _sent(program(100)), _sent(program(200))
    assert sum(map(len, many)) < 2.2 * sum(map(len, few))
    assert max(map(len, many)) < 1.2 * max(map(len, few)), "a command takes memory by the square of its length"


@pytest.mark.parametrize("count", [WIDEST, WIDEST + 1, 20 * WIDEST, WIDEST * WIDEST + WIDEST + 1])
def test_operators_of_any_number_of_arguments_are_equal_where_their_arguments_are(count: int) -> None:
    pieces = [input_node(f"x{i}", TensorType(np.dtype(F), (3,))) for i in range(count)]
    joined, other = (node("concat", args, (-1,)) for args in (pieces, [*pieces[:-1], pieces[0]]))
    engine = Engine()
    engine.add((*pieces, joined, other))
    assert not engine.equal(engine.name(joined), engine.name(other))
    rows, classes = engine.rows()
    args = {owner: args for op, _, args, owner in rows if op == "concat"}
    assert args[classes[joined]] == tuple(classes[p] for p in pieces)
    engine.run_once([f"(union {engine.name(pieces[0])} {engine.name(pieces[-1])})"])
    assert engine.equal(engine.name(joined), engine.name(other))


@pytest.mark.parametrize("count", [WIDEST, WIDEST + 1])
@pytest.mark.parametrize("fact", ["constant", "varies"])
def test_operators_of_many_arguments_are_constant_or_vary_as_those_of_few(count: int, fact: str) -> None:
    pieces = [input_node(f"x{i}", TensorType(np.dtype(F), (3,)), fact == "constant" or i > 0) for i in range(count)]
    joined = node("concat", pieces, (-1,))
    engine = Engine()
    engine.add((*pieces, joined, result := node("negative", [joined])))
    engine.fold_constants()
    engine.settle()
    engine.run_once([f"(check ({fact} {engine.name(n)}))" for n in (joined, result)])


def test_values_of_operators_of_many_arguments_are_known_when_they_are_added() -> None:
    pieces = [input_node(f"x{i}", TensorType(np.dtype(F), (3,))) for i in range(WIDEST + 1)]
    engine = Engine()
    engine.add(pieces)
    engine.track_ranges()
    engine.add([node("concat", pieces, (-1,))])
    assert len(engine.value_facts()) == len(pieces) + 1
