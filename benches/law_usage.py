"""How often each law decided a plan: which laws the plans of the benchmark programs rest on (`show/attribution.py`).

In: the book, the adversarial suite, the demo's programs. Out: a table, which is kept beside the book, and counts by law
read from it. A law that decides nothing anywhere is a candidate to drop. `eqfuse laws` reads the table alone, so what
makes it is imported there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from eqfuse.ir.graph import Graph
from eqfuse.rewrites import admitted, book, select

DEVICES = ("a100", "cpu")  # data sheets, so that the table is the same everywhere
NUMERICS = ("reassociate", "approximate")
SECONDS = 120.0  # for the laws of one plan

Table = Mapping[str, Sequence[str]]  # program and circumstances: laws


def decide() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(program, circumstances, the laws its plan rests on), computed anew."""
    for name, graph in programs().items():
        for circumstances, laws in deciding(graph).items():
            yield name, circumstances, laws


def deciding(graph: Graph) -> dict[str, tuple[str, ...]]:
    """The laws that the plans of `graph` rest on, by circumstances."""
    from eqfuse.compiler import extract
    from eqfuse.cost.profiles import device
    from eqfuse.egraph.saturate import saturate
    from eqfuse.show.attribution import rests_on

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
    import numpy as np

    from eqfuse.benches.corpus.suite import GRAPHS
    from eqfuse.demo.programs import small
    from eqfuse.frontends.numpy.trace import spec, trace

    found = {}
    for id, case in GRAPHS.items():
        function, types = case.program(small=False)
        found[id] = trace(function, *[spec(t.shape, t.dtype) for t in types])
    for example in small():
        function, arguments = example.build(np.float32)
        found[example.name] = trace(function, *arguments)
    return found


def decided() -> dict[str, int] | None:
    """Of how many benchmark programs a plan rests on each law of the book. None where the table is of another book."""
    table = read()
    if table is None:
        return None
    by_program = [{law for laws in found.values() for law in laws} for found in table.values()]
    return {law.name: sum(law.name in laws for laws in by_program) for law in book()}


def read() -> dict[str, dict[str, list[str]]] | None:
    """The kept table: laws by program and circumstances. None where it was made of another book."""
    kept = json.loads(path().read_text())
    found: dict[str, dict[str, list[str]]] = kept["programs"]
    return found if kept["book"] == digest() else None


def keep(found: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    """Store the table."""
    path().write_text(json.dumps({"book": digest(), "programs": found}, indent=1, ensure_ascii=False) + "\n")


def path() -> Path:
    """Where the table is kept."""
    return Path(import_module("eqfuse.rewrites").__path__[0]) / "decided.json"


def digest() -> str:
    """Names this book: its laws as they are printed, guards and exactness included."""
    text = "\n".join(f"{law.family} {law}" for law in book())
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
