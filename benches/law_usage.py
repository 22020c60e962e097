"""How often each law decided a plan: which laws the plans of the benchmark programs rest on (`show/attribution.py`).

In: the book, the adversarial suite, the demo's programs. Out: the rows of the table that `show/law_usage.py` keeps and
counts. A law that decides nothing anywhere is a candidate to drop.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eqfuse.benches.corpus.suite import GRAPHS
from eqfuse.compiler import extract
from eqfuse.cost.profiles import device
from eqfuse.demo.programs import small
from eqfuse.egraph.saturate import saturate
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.ir.graph import Graph
from eqfuse.rewrites import admitted, select
from eqfuse.show.attribution import rests_on

DEVICES = ("a100", "cpu")  # data sheets, so that the table is the same everywhere
NUMERICS = ("reassociate", "approximate")
SECONDS = 120.0  # for the laws of one plan


def decide() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(program, circumstances, the laws its plan rests on), computed anew."""
    for name, graph in programs().items():
        for circumstances, laws in deciding(graph).items():
            yield name, circumstances, laws


def deciding(graph: Graph) -> dict[str, tuple[str, ...]]:
    """The laws that the plans of `graph` rest on, by circumstances."""
    found = {}
    for numerics in NUMERICS:
        laws = admitted(select("all"), numerics)
        space = saturate(graph, laws=list(laws), numerics=numerics)
        for target in DEVICES:
            rests = rests_on(extract(space, target=device(target)), laws, SECONDS)
            if rests.doubt:
                raise RuntimeError(f"on {target}: {rests.doubt}")
            found[f"{target}, {numerics}"] = rests.laws
    return found


def programs() -> dict[str, Graph]:
    """The benchmark programs: the suite at its full sizes, the demo's at small ones."""
    found = {}
    for id, case in GRAPHS.items():
        function, types = case.program(small=False)
        found[id] = trace(function, *[spec(t.shape, t.dtype) for t in types])
    for example in small():
        function, arguments = example.build(np.float32)
        found[example.name] = trace(function, *arguments)
    return found
