"""The proof of a fused plan: its kernels go back into the e-graph, and egglog must find them equal to the program.

In: a `Segment` and the kernels chosen for it. Out: nothing, or EqfuseError. A kernel is a term ``run(bodies)``, what it
stored is ``read(i, run(bodies))``, and fusion is one law: reading what a kernel has just written is the value itself.
Terms of earlier proofs stay in the e-graph under names of their own, equal only to what they are equal to anyway: they
cannot be taken back, because in egglog 13.2 a global bound again after ``(pop)`` may be read as the value of another.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from eqfuse.engine import Engine
from eqfuse.errors import EqfuseError
from eqfuse.ir import Graph, Literal, Node, node
from eqfuse.ops import row
from eqfuse.space import Segment

Key = Hashable
_MORE_ROUNDS = 4  # of the laws, for a body whose lowering moved a view to a place saturation never built
_MORE_NODES = 5_000  # in each of them

_FUSION = """
(sort Body) (sort Bodies) (sort Kernel)
(constructor load (Tensor) Body)
(constructor none () Bodies)
(constructor with (Body Bodies) Bodies)
(constructor run (Bodies) Kernel)
(constructor read (i64 Kernel) Tensor)
(constructor value (Body) Tensor)
(ruleset fusion)
(rewrite (read 0 (run (with pb pbs))) (value pb) :ruleset fusion)
(rewrite (read pi (run (with pb pbs))) (read (- pi 1) (run pbs)) :when ((> pi 0)) :ruleset fusion)
(rule ((= pb (load pt))) ((union (value pb) pt)) :ruleset fusion)
"""


def prove(
    segment: Segment,
    kernels: Sequence[tuple[Graph, Sequence[Key], Sequence[Key]]],
    inputs: Sequence[Key],
    roots: Sequence[Key],
    constants: Mapping[Key, Literal] | None = None,
) -> None:
    """Prove that running `kernels` in order leaves the roots of `segment` in the values `roots`.

    A kernel is (body, keys it reads, keys it writes); `inputs` are the keys of the segment's inputs, in order;
    `constants` the values known in advance. Raises EqfuseError when egglog does not find a root equal.
    """
    engine = segment._engine
    proof = engine.begin_proof(_FUSION)
    terms = {key: engine.name(n) for key, n in zip(inputs, segment.graph.inputs, strict=True)}
    for key, literal in (constants or {}).items():
        terms[key] = engine.term(node("const", (), (literal,)), ())
    for number, (body, reads, writes) in enumerate(kernels):
        lines = []
        names = {n: f"(load {terms[key]})" for n, key in zip(body.inputs, reads, strict=True)}
        for at, n in enumerate(body.nodes):
            if n in names:
                continue
            _lower(engine, n)
            names[n] = f"$proof{proof}_{number}_body{at}"
            lines.append(f"(let {names[n]} {engine.term(n, [names[a] for a in n.args], 'b')})")
        bodies = "(none)"
        for output in reversed(body.outputs):
            bodies = f"(with {names[output]} {bodies})"
        kernel = f"$proof{proof}_{number}_kernel"
        lines.append(f"(let {kernel} (run {bodies}))")
        for at, key in enumerate(writes):
            terms[key] = f"$proof{proof}_{number}_value{at}"
            lines.append(f"(let {terms[key]} (read {at} {kernel}))")
        engine.run_once(lines)
    goals = [(engine.name(n), terms[key]) for n, key in zip(segment.graph.outputs, roots, strict=True)]
    for attempt in range(_MORE_ROUNDS + 1):
        engine.run("(run-schedule (saturate (run fusion)))")
        if all(engine.equal(wanted, got) for wanted, got in goals):
            return
        if attempt < _MORE_ROUNDS:
            engine.round(_MORE_NODES)
    wrong = next(i for i, goal in enumerate(goals) if not engine.equal(*goal))
    raise EqfuseError(
        f"the plan is not proved: output {wrong} of the segment is not equal to what its kernels compute; "
        "this is a fault in eqfuse, please report it with the printed graph and plan"
    )


def _lower(engine: Engine, n: Node) -> None:
    """Declare the body's form of the operator of `n`, and the law that lowers all its bodies at once."""
    arity, n_attrs = len(n.args), len(row(n.op).attrs)
    name = engine.declare(n.op, arity)
    body = "b" + name[1:]
    if body in engine.lowered:
        return
    engine.lowered.add(body)
    inputs = " ".join(["PyObject"] * (n_attrs + arity) + ["Body"] * arity)
    columns = [f"pa{i}" for i in range(n_attrs + arity)]
    bodies = [f"px{i}" for i in range(arity)]
    below = [f"(value {b})" for b in bodies]
    inner, outer = " ".join([body, *columns, *bodies]), " ".join([name, *columns, *below])
    engine.run(f"(constructor {body} ({inputs}) Body)")
    engine.run(f"(rule ((= pb ({inner}))) ((union (value pb) ({outer}))) :ruleset fusion)")
