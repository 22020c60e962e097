"""The proof of a fused plan: its kernels go back into the e-graph, and egglog must find them equal to the program.

In: a `Segment` and the kernels chosen for it. Out: nothing, or EqfuseError. A kernel is a term ``run(bodies)``, what it
stored is ``read(i, run(bodies))``, and fusion is one law: reading what a kernel has just written is the value itself.
Terms of earlier proofs stay in the e-graph under names of their own, equal only to what they are equal to anyway: they
cannot be taken back, because in egglog 13.2 a name bound again after ``(pop)`` may be read as the value of another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence

from eqfuse.budget import UNLIMITED, Allowance
from eqfuse.egraph.space import Segment
from eqfuse.errors import EqfuseError
from eqfuse.ir.graph import Graph, Node, node
from eqfuse.ops.literal import Literal

Key = Hashable
_MORE_ROUNDS = 4  # of the laws, for a body with a view at a place saturation never built
MORE_NODES = 5_000  # in each of them, and in all rounds of a derivation

_FUSION = """
(sort Bodies) (sort Kernel)
(constructor none () Bodies)
(constructor with (Tensor Bodies) Bodies)
(constructor run (Bodies) Kernel)
(constructor read (i64 Kernel) Tensor)
(function kernel (i64) Kernel :merge old)
(ruleset fusion)
(rewrite (read 0 (run (with pt pbs))) pt :ruleset fusion)
(rewrite (read pi (run (with pt pbs))) (read (- pi 1) (run pbs)) :when ((> pi 0)) :ruleset fusion)
"""
_LONG = 400  # characters of an expression before it gets a name
_BATCH = 40  # kernels between two runs of the fusion law
_FUSE = "(run-schedule (saturate (run fusion)))"


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
    assert engine is not None, "nothing was saturated"
    engine.begin_proof(_FUSION)
    terms = {key: engine.name(n) for key, n in zip(inputs, segment.graph.inputs, strict=True)}
    for key, literal in (constants or {}).items():
        terms[key] = engine.term(node("const", (), (literal,)), (), [])
    for number, (body, reads, writes) in enumerate(kernels):
        lines: list[str] = []
        names = {n: terms[key] for n, key in zip(body.inputs, reads, strict=True)}
        uses = Counter(a for n in body.nodes for a in n.args)
        for n in body.nodes:
            if n not in names:
                names[n] = engine.term(n, [names[a] for a in n.args], lines)
                if uses[n] > 1 or len(names[n]) > _LONG:
                    names[n] = engine.bind(names[n], lines)
        bodies = "(none)"
        for output in reversed(body.outputs):
            bodies = f"(with {names[output]} {bodies})"
        kernel = f"(run {bodies})"
        if len(writes) > 1:
            kernel = engine.bind(kernel, lines, "kernel")
        for place, key in enumerate(writes):
            terms[key] = engine.bind(f"(read {place} {kernel})", lines)
        engine.run_once(lines)
        if number % _BATCH == 0:
            engine.run(_FUSE)  # so that the next bodies meet the classes that exist: no long cascades of merges
    engine.run(_FUSE)
    engine.settle()
    goals = [(engine.name(n), terms[key]) for n, key in zip(segment.graph.outputs, roots, strict=True)]
    for attempt in range(_MORE_ROUNDS + 1):
        if all(engine.equal(wanted, got) for wanted, got in goals):
            return
        if attempt < _MORE_ROUNDS:
            engine.round(MORE_NODES)
            engine.run(_FUSE)
    wrong = next(i for i, goal in enumerate(goals) if not engine.equal(*goal))
    raise EqfuseError(
        f"the plan is not proved: output {wrong} of the segment is not equal to what its kernels compute; "
        "this is a fault in eqfuse, please report it with the printed graph and plan"
    )


class Derivation:
    """Rewriting one law after another, each step found equal by the e-graph of a `Segment` where it is taken.

    What stands on a replaced value stands on its class, which stays the same: nothing is proved twice. Once its rounds
    have made as many nodes as they may, or the `allowance` is spent, only what the e-graph holds by then is found.
    """

    def __init__(self, segment: Segment, allowance: Allowance = UNLIMITED) -> None:
        engine = segment._engine
        assert engine is not None, "nothing was saturated"
        self._engine, self._allowance = engine, allowance
        self._room = MORE_NODES
        engine.begin_proof(_FUSION)
        self._names = {n: engine.name(n) for n in (*segment.graph.inputs, *segment.graph.nodes)}

    def hold(self, equations: Sequence[tuple[Node, Node]], by: Collection[str]) -> list[bool]:
        """Which of `equations` the e-graph finds, by what it holds or by the laws `by` in a few rounds more."""
        engine = self._engine
        lines: list[str] = []
        pairs = [(self._name(a, lines), self._name(b, lines)) for a, b in equations]
        engine.run_once(lines)
        engine.settle()
        others = engine.others(by)
        held = engine.same(pairs)
        for _ in range(_MORE_ROUNDS):
            if all(held) or self._room <= 0 or self._allowance.spent():
                break
            before = engine.size
            changed = engine.round(self._room, self._allowance, others).updated
            self._room -= engine.size - before
            held = engine.same(pairs)
            if engine.cut:
                self._room = 0
            elif not changed:
                break
        return held

    def take(self, new: Mapping[Node, Node]) -> None:
        """From now on each node of the program is the one it is mapped to."""
        for old, replacement in new.items():
            if old in self._names:  # or else it came with a step, on what that step replaced: a term of its own
                self._names.setdefault(replacement, self._names[old])

    def _name(self, n: Node, lines: list[str]) -> str:
        if n not in self._names:
            term = self._engine.term(n, [self._name(a, lines) for a in n.args], lines)
            self._names[n] = self._engine.bind(term, lines)
        return self._names[n]
