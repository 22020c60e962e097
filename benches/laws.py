"""Law usage: on which laws the plans of the adversarial suite and of the demo's programs rest, on two devices.

Run: eqfuse bench laws [--keep | --redundant]. `--keep` stores the table that `eqfuse laws` shows
(rewrites/law_usage.json): do so when the book has changed. `--redundant` names the laws that others derive instead.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from eqfuse.benches.corpus.suite import GRAPHS
from eqfuse.benches.redundant_laws import redundant
from eqfuse.compiler import extract
from eqfuse.cost.profiles import profile
from eqfuse.demo.programs import small_programs
from eqfuse.egraph.saturate import saturate
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.ir.graph import Graph
from eqfuse.rewrites import FAMILIES, OPT_IN, admitted, law_usage, laws_named
from eqfuse.show.attribution import rests_on
from eqfuse.show.progress import progress

DEVICES = ("a100", "cpu")  # data sheets, so that the table is the same everywhere
NUMERICS = ("reassociate", "approximate")
SECONDS = 120.0  # for the laws of one plan


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="eqfuse bench laws", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help="store the table in rewrites/law_usage.json")
    parser.add_argument("--redundant", action="store_true", help="instead: which laws the others of the book derive")
    options = parser.parse_args(arguments)
    if options.redundant:
        _redundant()
        return
    usage: dict[str, dict[str, tuple[str, ...]]] = {}
    with progress() as display:
        for program, circumstances, laws in usage_of_programs():
            usage.setdefault(program, {})[circumstances] = laws
            print(f"{program}, {circumstances}: {', '.join(laws) or 'no law needed'}", flush=True)
            display.ended(f"{program}, {circumstances}")
    counts = Counter(law for each in usage.values() for law in {law for laws in each.values() for law in laws})
    print(f"\nprograms (of {len(usage)}) whose plan rests on a law, on either device, under either numerics:")
    for law, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        print(f"{count:4} {law}")
    print("\nlaws that no plan rests on here; they serve other programs, and cost little where they do not match:")
    for family, members in FAMILIES.items():
        idle = [law.name for law in members if law.name not in counts]
        print(f"  {family}, {len(idle)} of {len(members)}{' (opt-in)' if family in OPT_IN else ''}: {', '.join(idle)}")
    if options.keep:
        law_usage.keep_usage(usage)


def usage_of_programs() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(program, circumstances, the laws that its plan rests on)."""
    for name, graph in programs().items():
        for circumstances, laws in usage_of(graph).items():
            yield name, circumstances, laws


def usage_of(graph: Graph, each_numerics: Sequence[str] = NUMERICS) -> dict[str, tuple[str, ...]]:
    """The laws that the plans of `graph` rest on, by circumstances."""
    usage = {}
    for numerics in each_numerics:
        laws = admitted(laws_named("all"), numerics)
        space = saturate(graph, laws=list(laws), numerics=numerics)
        for target in DEVICES:
            rests = rests_on(extract(space, target=profile(target)), laws, SECONDS)
            if rests.doubt:
                raise RuntimeError(f"on {target}: {rests.doubt}")
            usage[f"{target}, {numerics}"] = rests.laws
    return usage


def programs() -> dict[str, Graph]:
    """The benchmark programs: the suite at its full sizes, the demo's at small ones."""
    graphs = {}
    for id, case in GRAPHS.items():
        function, types = case.program(small=False)
        graphs[id] = trace(function, *[spec(t.shape, t.dtype) for t in types])
    for example in small_programs():
        function, arguments = example.build(np.float32)
        graphs[example.name] = trace(function, *arguments)
    return graphs


def _redundant() -> None:
    """Print the laws of the default book that the others derive. Those on which plans rest are asked about last."""
    laws, used = laws_named("all"), law_usage.counts() or {}
    for law in redundant(laws, sorted(laws, key=lambda law: (used.get(law.name, 0), -laws.index(law)))):
        print(f"{law.family}: {law}", flush=True)


if __name__ == "__main__":
    main()
