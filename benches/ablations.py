"""The ablations of the comparison with greedy fusion: ways to choose a plan, on one price and with one emitter.

In: a traced graph and a device. Out: for every ablation its best plan, its predicted time, and the search time. All
ablations choose from one saturated space; an ablation that uses no law takes the program as it was written.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from eqfuse.compiler import extract
from eqfuse.cost.device import Device
from eqfuse.egraph.space import Space
from eqfuse.extract.greedy import GREEDY
from eqfuse.kinds import KINDS, Call, State, scan, scatter
from eqfuse.kinds import map as maps
from eqfuse.ops import Role
from eqfuse.plan.plan import Plan

ABLATIONS: Mapping[str, tuple[str, ...]] = {  # extractors of each ablation, of which the cheapest plan counts
    "greedy": GREEDY,
    "greedy + pass": tuple(f"{name}+algebra" for name in GREEDY),
    "algebra only": ("algebra-first",),
    "fusion only": ("fusion-only",),
    "joint": ("flow",),
}
EXACT_OPERATORS = 150  # the optimum is asked for up to this size


@dataclass(frozen=True)
class Choice:
    """What one extractor chose. `seconds`: predicted; `search`: that the extractor took, saturation apart."""

    extractor: str
    plan: Plan = field(repr=False)
    seconds: float
    kernels: int
    search: float


@dataclass(frozen=True)
class Choices:
    """What every extractor chose for one program on one device.

    `gap`: how far `flow` is above what no plan can beat, as a share of that; None where nobody asked. `unmapped`: the
    best greedy plan of kernels that end where arrays are joined, gathered, scanned or added to by index.
    """

    by: Mapping[str, Choice]
    gap: float | None
    unmapped: Choice

    def ablation(self, name: str) -> Choice:
        """The cheapest of an ablation, of equals the first."""
        return min((self.by[e] for e in ABLATIONS[name]), key=lambda c: c.seconds)

    def ablations(self) -> dict[str, Choice]:
        return {name: self.ablation(name) for name in ABLATIONS}

    def over(self, ablation: str) -> float:
        """Predicted time of the best greedy plan over that of an ablation."""
        return self.ablation("greedy").seconds / self.ablation(ablation).seconds

    @property
    def factor(self) -> float:
        return self.over("joint")


def choices(space: Space, device: Device, exact: bool = False) -> Choices:
    """The plans of all ablations; with `exact` the gap of the joint one, where the program is small enough to tell."""
    by = {name: _choice(space, device, name) for ablation in ABLATIONS.values() for name in ablation}
    gap = None
    if exact and len(space.graph.operators) <= EXACT_OPERATORS:
        bound = extract(space, target=device, extractor="exact").bound
        assert bound is not None
        gap = max(0.0, by["flow"].seconds / bound - 1) if bound > 0 else 0.0
    with without_maps():
        unmapped = min([_choice(space, device, name) for name in GREEDY], key=lambda c: c.seconds)
    return Choices(by, gap, unmapped)


@contextmanager
def without_maps() -> Iterator[None]:
    """Kernels read arrays by strides alone, as those of other systems do."""
    kept = dict(KINDS)
    for name in (scan.NAME, scatter.NAME):
        del KINDS[name]
    KINDS[maps.NAME] = replace(maps.KIND, accept=_by_strides)
    try:
        yield
    finally:
        KINDS.clear()
        KINDS.update(kept)


def _by_strides(call: Call) -> State | str | None:
    return None if call.is_a(Role.PIECES) or call.is_a(Role.GATHER) else maps.accept(call)


def _choice(space: Space, device: Device, extractor: str) -> Choice:
    begun = time.perf_counter()
    plan = extract(space, target=device, extractor=extractor)
    taken = time.perf_counter() - begun
    return Choice(extractor, plan, plan.seconds, sum(not k.is_view for k in plan.kernels), taken)


