"""A Space as egraph-serialize JSON: others' extractors read it, and it comes back as it was."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqfuse as ef
from eqfuse.benches.corpus.suite import GRAPHS
from eqfuse.cost.profiles import DEVICES
from eqfuse.egraph.space import Space
from eqfuse.extract.space_json import _op, load_space, space_of_text, space_text
from eqfuse.ir.evaluate import evaluate
from eqfuse.ir.graph import Graph, Node, attr_text, node
from eqfuse.rewrites import Law, tensors
from tests.plans.test_segments import network, recurrent
from tests.support.random_graphs import random_graph

CPU = DEVICES["cpu"]
SHORT = ef.Budget(nodes=1000, rounds=6)


def of_suite(name: str, laws: Any = "all") -> Space:
    function, types = GRAPHS[name].program(small=True)
    return ef.saturate(ef.trace(function, *[ef.spec(t.shape, t.dtype) for t in types]), laws=laws, budget=SHORT)


# ---- there and back


@pytest.mark.parametrize("name", ["G6", "G17", "G24"])
def test_a_space_of_the_suite_comes_back_as_it_was(name: str) -> None:
    space = of_suite(name)
    again = space_of_text(space_text(space, CPU))
    assert again.graph == space.graph and again.uses == space.uses
    for a, b in zip(again.segments, space.segments, strict=True):
        assert (a.classes, a.inputs, a.roots, a.origin) == (b.classes, b.inputs, b.roots, b.origin)
        assert (a.stop_reason, a.rounds, a.laws_fired) == (b.stop_reason, b.rounds, b.laws_fired)
    for target in ("cpu", "cuda:h100"):
        assert ef.extract(again, target) == ef.extract(space, target)


@pytest.mark.parametrize(
    "graph", [network(3), pytest.param(recurrent(12, 4, 8), marks=pytest.mark.slow)], ids=["layers", "steps"]
)
def test_segments_that_stand_in_several_places_and_large_constants_come_back(graph: Graph, tmp_path: Path) -> None:
    space = ef.saturate(graph, budget=SHORT)
    assert len(space.uses) > len(space.segments)
    space.save(tmp_path / "space.json")
    again = ef.load_space(tmp_path / "space.json")
    assert again.uses == space.uses and ef.extract(again) == ef.extract(space)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "target"), [({"seconds": 0.02}, "cpu"), ({"nodes": 60}, "cuda:a100")], ids=["clock", "nodes"]
)
def test_a_search_that_a_limit_ended_gives_the_same_plan_after_a_journey(limit: dict[str, Any], target: str) -> None:
    space = ef.saturate(recurrent(2, 4, 8), budget=ef.Budget(**limit))
    assert space.stop_reason in limit
    assert ef.extract(space_of_text(space_text(space, CPU)), target) == ef.extract(space, target)


def test_arguments_and_results_nest_as_before() -> None:
    graph = ef.trace(lambda p: {"sum": (p["a"] + p["b"]).sum()}, {"a": np.ones(3), "b": np.arange(3.0)})
    program = ef.emit(ef.extract(space_of_text(space_text(ef.saturate(graph), CPU))))
    assert program({"a": np.ones(3), "b": np.arange(3.0)}) == {"sum": 6.0}


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(s, marks=pytest.mark.slow) for s in range(3, 10))])
def test_a_random_space_gives_the_same_plan_after_a_journey(seed: int) -> None:
    graph, _ = random_graph(np.random.default_rng(seed))
    space = ef.saturate(graph, budget=SHORT)
    assert ef.extract(space_of_text(space_text(space, CPU))) == ef.extract(space)


def test_a_law_of_the_users_own_is_not_needed_to_read_what_it_made() -> None:
    (x,) = tensors("x")
    law = Law("doubled", x + x, x * 2.0)
    graph = ef.trace(lambda a: np.exp(a + a), ef.spec((5,), np.float32))
    space = ef.saturate(graph, laws=[law])
    assert space.laws_fired == {"doubled": 1}
    assert ef.extract(space_of_text(space_text(space, CPU))) == ef.extract(space)


def test_every_kind_of_attribute_survives() -> None:
    attrs = ((-2, -1), ((0, 3, 2), (1, 2, 1)), "ortho", None, True, 4, 0.5, np.dtype("bfloat16"))
    assert _op(f"fft({', '.join(map(attr_text, attrs))})") == ("fft", attrs)
    assert _op("exp") == ("exp", ())


PRINT = """
import numpy as np, eqfuse as ef
from eqfuse.cost.profiles import DEVICES
from eqfuse.extract.space_json import space_text
print(space_text(ef.saturate(ef.trace(lambda x: np.exp(x - x.max()).sum() / 3, ef.spec((4, 6)))), DEVICES["cpu"]))
"""


@pytest.mark.slow
def test_two_processes_write_the_same_bytes() -> None:
    texts = {subprocess.run([sys.executable, "-c", PRINT], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(texts) == 1 and next(iter(texts)).startswith(b"{")


# ---- what others read


@pytest.fixture(scope="module")
def softmax() -> dict[str, Any]:
    return json.loads(space_text(of_suite("G16"), CPU))


def test_the_fields_are_those_of_the_format(softmax: dict[str, Any]) -> None:
    nodes = softmax["nodes"]
    for n in nodes.values():
        assert set(n) == {"op", "children", "eclass", "cost"}
        assert all(child in nodes for child in n["children"]) and isinstance(n["op"], str)
        assert math.isfinite(n["cost"]) and n["cost"] >= 0
    classes = {n["eclass"] for n in nodes.values()}
    assert classes == set(softmax["class_data"]) and set(softmax["root_eclasses"]) <= classes
    assert all(isinstance(v, str) for data in softmax["class_data"].values() for v in data.values())


def bottom_up(data: dict[str, Any]) -> dict[str, str]:
    """The gym's first extractor: for each class the node of the least tree cost."""
    best: dict[str, tuple[float, str]] = {}
    changed = True
    while changed:
        changed = False
        for name, n in data["nodes"].items():
            below = [best.get(data["nodes"][c]["eclass"]) for c in n["children"]]
            if all(below):
                cost = n["cost"] + sum(b[0] for b in below if b)
                if n["eclass"] not in best or cost < best[n["eclass"]][0]:
                    best[n["eclass"]], changed = (cost, name), True
    return {c: name for c, (_, name) in best.items()}


@pytest.mark.parametrize("seed", range(4))
def test_what_anothers_extractor_chooses_means_the_program(seed: int) -> None:
    graph, arrays = random_graph(np.random.default_rng(seed))
    space = ef.saturate(graph, budget=SHORT)
    data = json.loads(space_text(space, CPU))
    (segment,) = space.segments
    chosen = bottom_up(data)
    nodes: dict[str, Node] = {}

    def build(c: str) -> Node:
        if c not in nodes:
            n = data["nodes"][chosen[c]]
            op, attrs = _op(n["op"])
            nodes[c] = node(op, [build(data["nodes"][child]["eclass"]) for child in n["children"]], attrs)
        return nodes[c]

    outputs = tuple(build(f"0.{r}") for r in segment.roots)
    given = dict(zip(graph.inputs, arrays, strict=True))
    large = [n.literal.array if n.op == "const" else given[n] for n in space.uses[0].inputs]
    got = evaluate(Graph(segment.graph.inputs, outputs), large)
    for a, b in zip(got, evaluate(graph, arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_without_laws_the_costs_add_up_to_the_unfused_plan() -> None:
    for name in ("G1", "G16", "G26"):
        space = of_suite(name, laws="none")
        total = sum(n["cost"] for n in json.loads(space_text(space, CPU))["nodes"].values())
        plan = ef.extract(space, CPU, "unfused")
        assert total == pytest.approx(plan.seconds)


# ---- refusals

FOREIGN = {
    "nodes": {
        "node1": {"op": "foo", "children": ["node2"], "eclass": "18"},
        "node2": {"op": "bar", "eclass": "12", "cost": 6.0},
    },
    "root_eclasses": ["18"],
}


def test_an_e_graph_of_another_tool_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "foreign.json").write_text(json.dumps(FOREIGN))
    with pytest.raises(ef.EqfuseError, match=r"foreign\.json.*not written by eqfuse.*types"):
        load_space(tmp_path / "foreign.json")


@pytest.mark.parametrize("content", ["", "{", "[1]", "{}", '{"nodes": 3}', "[" * 100_000])
def test_what_is_no_e_graph_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "space.json").write_text(content)
    with pytest.raises(ef.EqfuseError, match=r"space\.json.*(not JSON|no e-graph)"):
        load_space(tmp_path / "space.json")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "missing.json"):
        with pytest.raises(ef.EqfuseError, match="cannot be read"):
            load_space(wrong)


def change(*path: Any, to: Any) -> Any:
    def damage(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        if to is None:
            del data[path[-1]]
        else:
            data[path[-1]] = to(data[path[-1]])

    return damage


DAMAGES = {
    "another version": (change("eqfuse", "format", to=lambda f: f + 1), "another version"),
    "a node is gone": (change("nodes", "0.2.0", to=None), "node '0.[0-9]+.0' reads the node|has only nodes|hold"),
    "a node reads nothing": (change("nodes", "0.1.0", "children", to=lambda c: ["0.99.0"]), r"0\.99\.0.*missing"),
    "an unknown operator": (change("nodes", "0.1.0", "op", to=lambda op: "mystery"), "mystery|hold"),
    "code for an operator": (change("nodes", "0.1.0", "op", to=lambda op: "sum(exit())"), r"node '0\.1\.0'"),
    "another type": (change("class_data", "0.1", "type", to=lambda t: "float32[7]"), "hold|gives"),
    "no classes": (change("class_data", to=None), "the classes"),
    "another root": (change("eqfuse", "segments", 0, "roots", to=lambda r: [r[0] + 1]), "results"),
    "another origin": (change("eqfuse", "segments", 0, "origin", to=lambda o: o[::-1]), "segment 0"),
    "another program": (change("eqfuse", "graph", to=lambda g: g.replace("exp(", "sin(")), "the uses"),
    "no program": (change("eqfuse", "graph", to=lambda g: "import os"), "the program"),
    "unknown numerics": (change("eqfuse", "numerics", to=lambda n: "fast"), "the numerics: numerics is 'fast'"),
    "no uses": (change("eqfuse", "uses", to=lambda u: []), "the uses"),
    "known when it is not": (change("class_data", "0.0", to=lambda d: d | {"known": "when built"}), "known when built"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_space_is_refused_with_the_place(name: str, softmax: dict[str, Any], tmp_path: Path) -> None:
    data = json.loads(json.dumps(softmax))
    damage, message = DAMAGES[name]
    damage(data)
    (tmp_path / "space.json").write_text(json.dumps(data))
    with pytest.raises(ef.EqfuseError, match=message):
        load_space(tmp_path / "space.json")
