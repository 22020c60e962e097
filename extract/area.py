"""Area flow: covers from the roots by the cheapest cuts, over several passes; and covers taken over from a program.

In: a `Grammar`, covers to start from. Out: `Candidates`, covers. After ABC's `if` mapper, as in `enumerate`.
"""

from __future__ import annotations

import math

from eqfuse.extract.cover import Cover
from eqfuse.extract.cuts import Cut, Grammar, below
from eqfuse.extract.enumerate import Candidates
from eqfuse.rewrites import COMMUTATIVE
from eqfuse.space import ENode, Segment

PASSES = 2  # with the reference counts of the cover before


def area_flow(grammar: Grammar, starts: list[Cover]) -> tuple[Candidates, list[Cover]]:
    """The candidates of the last pass, those of `starts` among them, and `starts` with the cover of each pass."""
    references = _references(min(starts, key=lambda c: c.cost, default=None))
    found = list(starts)
    candidates: Candidates | None = None
    for _ in range(PASSES):
        candidates = Candidates(grammar, references, candidates)
        for start in starts:
            for cut in start.choice.values():
                candidates.add(cut)
        cover = _cheapest(candidates)
        if cover is not None:
            found.append(cover)
            references = _references(cover)
    assert candidates is not None
    return candidates, found


def _references(cover: Cover | None) -> dict[int, int]:
    return dict(cover.refs) if cover is not None else {}


def _cheapest(candidates: Candidates) -> Cover | None:
    """A cover from the roots by the cheapest cut of each class that does not depend on what is being covered."""
    grammar = candidates.grammar
    cover = Cover(grammar, grammar.segment.roots)
    banned: dict[int, set[int]] = {}
    for _ in range(64):
        choice: dict[int, Cut] = {}
        stack = list(cover.roots)
        while stack:
            of = stack.pop()
            if of in choice:
                continue
            usable = [c for c in candidates.cuts.get(of, ()) if id(c) not in banned.get(of, ())]
            if not usable:
                return None
            choice[of] = min(usable, key=lambda c: candidates.total(c) - c.price.seconds + cover.seconds(of, c))
            stack.extend(cover.reads(choice[of]))
        loop = _loop(cover, choice)
        if loop is None:
            return cover if cover.take(choice) else None
        dearest = max(loop, key=lambda c: (candidates.total(choice[c]), c))
        banned.setdefault(dearest, set()).add(id(choice[dearest]))
    return None


def _loop(cover: Cover, choice: dict[int, Cut]) -> list[int] | None:
    """Classes of `choice` that read one another in a circle, or None."""
    done: set[int] = set()
    for root in choice:
        path: list[int] = []
        on_path: set[int] = set()
        stack: list[tuple[int, bool]] = [(root, False)]
        while stack:
            of, leave = stack.pop()
            if leave:
                path.pop()
                on_path.discard(of)
                done.add(of)
            elif of in on_path:
                return path[path.index(of) :]
            elif of not in done:
                path.append(of)
                on_path.add(of)
                stack.append((of, True))
                stack.extend((leaf, False) for leaf in cover.reads(choice[of]))
    return None


def transplant(cover: Cover, segment: Segment, grammar: Grammar) -> Cover | None:
    """A greedy plan over the classes of the saturated segment; None when classes merged or vanished under it."""
    number = _numbers(cover.grammar.segment, segment)
    moved: dict[int, Cut] = {}
    choice: dict[int, Cut] = {}
    for old in below(cover.choice[c] for c in cover.order()):
        if old.of not in number or not all(a in number for a in (old.enode.args if old.enode else ())):
            return None
        of = number[old.of]
        if not old.parts:
            moved[id(old)] = grammar.leaf(of)
            continue
        assert old.enode is not None
        enode = ENode(old.enode.op, tuple(number[a] for a in old.enode.args), old.enode.attrs)
        parts = tuple(moved[id(p)] for p in old.parts)
        if of in grammar.free or of in grammar.scalars:
            moved[id(old)] = grammar.leaf(of)  # a law found that this is known
            continue
        made = grammar.join(of, enode, parts)
        if isinstance(made, str) or made.price.seconds == math.inf:
            return None
        moved[id(old)] = made
    for c, cut in cover.choice.items():
        if number[c] not in grammar.free:
            choice[number[c]] = moved[id(cut)]
    new = Cover(grammar, segment.roots)
    return new if new.take(choice) else None


def _numbers(program: Segment, segment: Segment) -> dict[int, int]:
    """The class of `segment` for each class of a program that it holds, where there is one."""
    owner = {enode: i for i, c in enumerate(segment.classes) for enode in c.nodes}
    number: dict[int, int] = {}
    for n, i in program.origin.items():
        if n in segment.origin:
            number[i] = segment.origin[n]
        elif all(program.origin[a] in number for a in n.args):
            args = tuple(number[program.origin[a]] for a in n.args)
            orders = (args, args[::-1]) if n.op in COMMUTATIVE else (args,)
            found = next((owner[e] for order in orders if (e := ENode(n.op, order, n.attrs)) in owner), None)
            if found is not None:
                number[i] = found
    return number
