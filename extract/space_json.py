"""A Space as egraph-serialize JSON and back: the format of extraction-gym and of egglog's viewers.

In: a `Space`. Out: a file that others' extractors read; and from it, the same `Space`. The distinct segments lie side
by side in one e-graph. An operator stands with its attributes, ``sum((-1,))``, a class with its type; what the format
has no word for lies under the key ``eqfuse``, which its readers pass over (its structs deny no unknown field; about a
class they take strings alone). The bytes depend on the space and the device alone: times of the search are not kept.
Types, cuts and the program's own nodes are checked on reading; that a class's nodes are equal is taken as the file
says. Reading runs nothing.
"""

from __future__ import annotations

import ast
import json
import math
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eqfuse.cost.device import Device
from eqfuse.cost.targets import device_for
from eqfuse.egraph.canonical import canonical_piece, slice_of
from eqfuse.egraph.saturate import constant_classes, thaw
from eqfuse.egraph.segments import Use
from eqfuse.egraph.space import EClass, ENode, Segment, Space
from eqfuse.errors import EqfuseError
from eqfuse.extract.kernel_price import priced
from eqfuse.frontends.signature_text import read_signature, write_signature
from eqfuse.ir.graph import Graph, Node, attr_text, checked_graph, input_node
from eqfuse.ir.text import attr, parse
from eqfuse.machine.files import users_file, write_users_file
from eqfuse.ops.literal import literal_from_text
from eqfuse.ops.types import TensorType, tensor_type
from eqfuse.rewrites import book, numerics_named

SPACE_FORMAT = 3  # of the text: one that reads no older texts has the next number
TEXT_DAMAGE = (
    ValueError, KeyError, TypeError, IndexError, AttributeError, AssertionError, RecursionError, SyntaxError,
)  # fmt: skip


def save_space(space: Space, path: str | Path, target: str | Device) -> None:
    """Write `space` to `path`, in one step, its nodes priced for `target`."""
    users_file(path)
    write_users_file(path, space_text(space, device_for(target)).encode())


def load_space(path: str | Path) -> Space:
    """The space that `Space.save` wrote to `path`. EqfuseError says what is wrong with any other file."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EqfuseError(f"the space {str(path)!r} cannot be read: {error}") from error
    try:
        return space_of_text(text)
    except EqfuseError as error:
        error.args = (f"{path} cannot be loaded: {error}",)
        raise


# ---- writing


def space_text(space: Space, device: Device) -> str:
    """`space` as JSON text."""
    nodes: dict[str, Any] = {}
    class_data: dict[str, Any] = {}
    for s, segment in enumerate(space.segments):
        cost = _NodeCosts(segment, device)
        for c, class_ in enumerate(segment.classes):
            class_data[f"{s}.{c}"] = {"type": str(class_.type)} | ({"known": "when built"} if class_.constant else {})
            for i, enode in enumerate(class_.nodes):
                nodes[f"{s}.{c}.{i}"] = {
                    "op": _op_text(enode),
                    "children": [f"{s}.{a}.0" for a in enode.args],
                    "eclass": f"{s}.{c}",
                    "cost": cost(c, enode),
                }
    place = {n: i for i, n in enumerate(_all_nodes(space.graph))}
    own = {
        "format": SPACE_FORMAT,
        "device": device.name,
        "numerics": space.numerics,
        "graph": str(space.graph),
        **write_signature(space.graph.signature),
        "segments": [_segment(s) for s in space.segments],
        "uses": [[u.segment, [place[n] for n in u.inputs], [place[n] for n in u.outputs]] for u in space.uses],
    }
    roots = dict.fromkeys(f"{s}.{r}" for s, segment in enumerate(space.segments) for r in segment.roots)
    data = {"nodes": nodes, "root_eclasses": list(roots), "class_data": class_data, "eqfuse": own}
    return json.dumps(data, indent=1) + "\n"


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "graph": str(segment.graph),
        "inputs": segment.inputs,
        "roots": segment.roots,
        "origin": [segment.origin.get(n, -1) for n in _all_nodes(segment.graph)],
        "stop_reason": segment.stop_reason,
        "rounds": segment.rounds,
        "nodes_per_round": segment.nodes_per_round,
        "laws_fired": segment.laws_fired,
        "laws": segment._engine.laws if segment._engine is not None else [],
    }


def _all_nodes(graph: Graph) -> list[Node]:
    return list(dict.fromkeys((*graph.inputs, *graph.nodes)))


def _op_text(enode: ENode) -> str:
    if enode.op == "const":
        return f"const({enode.attr('value').text()})"
    attrs = (f'"{a}"' if isinstance(a, TensorType) else attr_text(a) for a in enode.attrs)
    return f"{enode.op}({', '.join(attrs)})" if enode.attrs else enode.op


class _NodeCosts:
    """Seconds of one node in a kernel of its own: nothing for what is known when the program is built, and for views,
    which move no data."""

    def __init__(self, segment: Segment, device: Device) -> None:
        self._classes, self._device = segment.classes, device
        self._by_node: dict[Hashable, float] = {}

    def __call__(self, eclass: int, enode: ENode) -> float:
        if self._classes[eclass].constant or enode.op == "input":
            return 0.0
        args = [self._argument(i, a) for i, a in enumerate(enode.args)]
        n = enode.over(args)
        if n not in self._by_node:
            inputs = tuple(dict.fromkeys(a for a in args if a.op == "input"))
            self._by_node[n] = self._seconds(Graph(inputs, (n,)))
        return self._by_node[n]

    def _argument(self, place: int, eclass: int) -> Node:
        """A scalar constant stands in the kernel that reads it; anything else is read."""
        class_ = self._classes[eclass]
        scalars = (e.over(()) for e in class_.nodes if e.op == "const" and class_.type.size == 1)
        return next(scalars, None) or input_node(f"r{place}", class_.type)

    def _seconds(self, body: Graph) -> float:
        answer = priced(body, self._device)
        if isinstance(answer, str):
            raise EqfuseError(f"{body.outputs[0].op} has no price on {self._device.name}: {answer}")
        state, price = answer
        if state.is_view:
            return 0.0
        return price.seconds if math.isfinite(price.seconds) else sys.float_info.max  # JSON has no infinity


# ---- reading


def space_of_text(text: str) -> Space:
    """The space that `space_text` wrote."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EqfuseError(f"this is not JSON: {error}") from error
    if not isinstance(data, dict) or not isinstance(data.get("nodes"), dict):
        raise EqfuseError("this is no e-graph in egraph-serialize's JSON: it has no 'nodes'")
    own = data.get("eqfuse")
    if own is None:
        raise EqfuseError(
            "this e-graph was not written by eqfuse: without the types of its values (the key 'eqfuse', written by "
            "space.save) no kernel can be priced or emitted"
        )
    if not isinstance(own, dict) or own.get("format") != SPACE_FORMAT:
        raise EqfuseError("this space was saved by another version of eqfuse: saturate the program again and save it")
    graph = _read("the program", lambda: checked_graph(parse(own["graph"])))
    signature = _read("the signature", lambda: read_signature(own))
    graph = Graph(graph.inputs, graph.outputs, signature)
    classes = _read("the classes", lambda: _classes(data, len(own["segments"])))
    segments = tuple(
        _read(f"segment {s}", lambda s=s: _segment_from(own["segments"][s], classes[s]))  # type: ignore[misc]
        for s in range(len(classes))
    )
    uses = _read("the uses", lambda: _uses(own["uses"], graph, segments))
    numerics = _read("the numerics", lambda: numerics_named(own["numerics"]))
    segments = tuple(replace(s, strict=numerics == "strict") for s in segments)
    return Space(graph, segments, uses, numerics)


def _read(what: str, make: Callable[[], Any]) -> Any:
    try:
        return make()
    except EqfuseError as error:
        error.args = (f"{what}: {error}",)
        raise
    except TEXT_DAMAGE as error:
        raise EqfuseError(f"{what}: {type(error).__name__}: {error}") from error


def _expect(condition: bool, why: str) -> None:
    if not condition:
        raise EqfuseError(why)


def _classes(data: dict[str, Any], count: int) -> list[tuple[EClass, ...]]:
    """The classes of every segment. Their numbers and their nodes' order are those of the ids."""
    types: list[list[TensorType]] = [[] for _ in range(count)]
    claims: list[list[bool]] = [[] for _ in range(count)]
    for name, about in data["class_data"].items():
        s, c = map(int, name.split("."))
        _expect(c == len(types[s]), f"class {name!r} stands in the wrong place")
        types[s].append(tensor_type(about["type"]))
        claims[s].append("known" in about)
    nodes: list[list[list[ENode]]] = [[[] for _ in t] for t in types]
    for name, n in data["nodes"].items():
        s, c, i = map(int, name.split("."))
        _expect(n["eclass"] == f"{s}.{c}" and i == len(nodes[s][c]), f"node {name!r} stands in the wrong place")
        args = []
        for child in n.get("children", ()):
            _expect(child in data["nodes"], f"node {name!r} reads the node {child!r}, which is missing")
            owner = data["nodes"][child]["eclass"].split(".")
            _expect(int(owner[0]) == s, f"node {name!r} reads another segment")
            args.append(int(owner[1]))
        op, attrs = _read(f"node {name!r}", lambda n=n: _op(n["op"]))  # type: ignore[misc]
        nodes[s][c].append(ENode(op, tuple(args), attrs))
    classes = []
    for s in range(count):
        constants = constant_classes([[(e.op, e.attrs, list(e.args)) for e in c] for c in nodes[s]])
        for c, (is_constant, says) in enumerate(zip(constants, claims[s], strict=True)):
            _expect(is_constant == says, f"class '{s}.{c}' is wrong about whether it is known when built")
        classes.append(tuple(EClass(t, tuple(e), k) for t, e, k in zip(types[s], nodes[s], constants, strict=True)))
    return classes


def _op(text: str) -> tuple[str, tuple[Hashable, ...]]:
    """Operator and attributes from `_op_text`."""
    call = ast.parse(text, mode="eval").body
    if isinstance(call, ast.Name):
        return call.id, ()
    _expect(isinstance(call, ast.Call) and isinstance(call.func, ast.Name), f"{text!r} is no operator")
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    if call.func.id == "const":
        return "const", (literal_from_text(*map(ast.literal_eval, call.args)),)
    attrs = tuple(attr(a) for a in call.args)
    if call.func.id == "input":
        name, type_text, is_constant = attrs
        return "input", (name, tensor_type(type_text), is_constant)
    return call.func.id, attrs


def _segment_from(data: dict[str, Any], classes: tuple[EClass, ...]) -> Segment:
    graph = checked_graph(parse(data["graph"]))
    every = _all_nodes(graph)
    origin = {n: c for n, c in zip(every, data["origin"], strict=True) if c != -1}
    for n, c in origin.items():
        _expect(_holds(classes[c], n, origin), f"class {c} does not hold the program's own {n.op}")
    inputs, roots = tuple(data["inputs"]), tuple(data["roots"])
    _expect(inputs == tuple(origin.get(n, -1) for n in graph.inputs), "its inputs stand in other classes")
    _expect(roots == tuple(origin[n] for n in graph.outputs), "its results stand in other classes")
    laws = {law.name: law for law in book()}
    loaded = tuple(laws[name] for name in data["laws"] if name in laws)
    return Segment(
        graph,
        classes,
        inputs,
        roots,
        origin,
        str(data["stop_reason"]),
        int(data["rounds"]),
        dict(data["laws_fired"]),
        {},
        0.0,
        tuple(data["nodes_per_round"]),
        thaw(graph, classes, origin, loaded),
        loaded,
    )


def _holds(eclass: EClass, n: Node, origin: dict[Node, int]) -> bool:
    """Is `n` among the nodes of its class? Of ``x + y`` and ``y + x`` a class keeps one."""
    args = tuple(origin.get(a, -1) for a in n.args)
    swapped = args[::-1] if n.row.commutes else args
    own = (ENode(n.op, args, n.attrs), ENode(n.op, swapped, n.attrs))
    return eclass.type == n.type and any(e in eclass.nodes for e in own)


def _uses(data: Sequence[Any], graph: Graph, segments: Sequence[Segment]) -> tuple[Use, ...]:
    every = _all_nodes(graph)
    uses = tuple(Use(int(s), tuple(every[i] for i in ins), tuple(every[i] for i in outs)) for s, ins, outs in data)
    computed = set(graph.inputs)
    for number, use in enumerate(uses):
        undefined = (n for n in use.inputs if n.op != "const" and n not in computed and slice_of(n) not in computed)
        _expect(next(undefined, None) is None, f"use {number} reads what no use before it makes")
        cut = canonical_piece(use.outputs, set(use.inputs))
        _expect(cut == (segments[use.segment].graph, use.inputs), f"use {number} is no place where its segment stands")
        computed.update(use.outputs)
    _expect(computed.issuperset(graph.outputs), "some result of the program is in no segment")
    return uses
