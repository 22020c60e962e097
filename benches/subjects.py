"""What the comparison with greedy fusion is run on: the adversarial suite, its controls, and published networks.

In: nothing. Out: `SUBJECTS` by name; each gives its graph at full size, and one that a small machine can run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eqfuse.benches.corpus.controls import CONTROLS
from eqfuse.benches.corpus.index_maps import INDEX_MAPS
from eqfuse.benches.corpus.interplay import INTERPLAY
from eqfuse.benches.corpus.network import Network, built, traced
from eqfuse.benches.corpus.networks import NETWORKS
from eqfuse.benches.corpus.pairs import PAIRS
from eqfuse.benches.corpus.scans import SCANS
from eqfuse.benches.corpus.suite import GRAPHS, Case
from eqfuse.frontends.numpy.trace import spec, trace
from eqfuse.ir.graph import Graph

# Where a row is measured: what differs from its full size. Arrays of 16 to 64 MB, products of some 20 ms, and float32
# where the suite has half precision, whose products NumPy computes one by one.
FITS: Mapping[str, Mapping[str, int]] = {
    "G1": {"n": 3072}, "G2": {"m": 16384}, "G3 k=8": {"n": 3072}, "G3 k=200": {"n": 2048},
    "G4 N=4096": {"m": 2048, "k": 1024, "n": 1024, "bits": 32}, "G4 N=64": {"k": 1024, "bits": 32},
    "G5": {"m": 4096}, "G7": {"n": 1024}, "G8": {"n": 2048}, "G8 transposed": {"n": 2048}, "G9": {"h": 4, "s": 2048},
    "G10": {"m": 16384}, "G11": {"m": 16384}, "G12": {"m": 256, "n": 2048},
    "G13": {"m": 1024, "k": 512, "n": 2816, "bits": 32}, "G14": {"n": 3072}, "G15": {"m": 2048, "n": 4096},
    "G16": {"h": 4, "s": 2048}, "G17": {"n": 32}, "G18": {"n": 32}, "G19": {"n": 2048}, "G20": {"m": 16384, "n": 512},
    "G21": {"n": 2048}, "G22": {"n": 3072}, "G23": {"t": 64, "k": 1024, "n": 8192}, "G24": {"m": 1024, "n": 8192},
    "G25 M=65536": {"m": 4096, "n": 1024}, "G25 constants": {"m": 1024, "n": 1024}, "G26": {"m": 2048, "n": 4096},
    "G27": {"n": 2048}, "G28": {"n": 3072}, "G29": {"n": 3072}, "G30": {"n": 2048}, "G31": {"n": 3072},
    "N1": {"n": 128}, "N2": {"h": 4, "s": 1024}, "N3": {"n": 2048}, "N4": {"n": 3072}, "N5": {"n": 1 << 23},
    "M1": {"n": 2048}, "M2": {"n": 2048}, "M3": {"n": 2048}, "M4": {"s": 4096}, "M5": {"n": 2048},
    "S1": {"n": 4096}, "S2": {"n": 4096}, "S3": {"n": 4096}, "S4": {"n": 4096},
    "P1": {"n": 2048}, "P2": {"n": 2048}, "P3": {"n": 2048}, "P4": {"n": 2048}, "P5": {"n": 2048},
    **{f"M{i}": {"n": 2048} for i in (6, 7, 8, 11, 12)}, "M9": {"s": 4096}, "M10": {"b": 1024},
    "S5": {"n": 1 << 23}, "S6": {"n": 1 << 23},
    **{f"J{i}": {"n": 2048} for i in (*range(1, 11), 18, 22)},
    "J11": {"h": 4, "s": 2048}, "J12": {"n": 16384}, "J13": {"s": 4096}, "J14": {"b": 1 << 16, "v": 20000},
    **{f"J{i}": {"m": 1024, "n": 8192} for i in (15, 16, 17)}, "J19": {"n": 4096}, "J20": {"n": 8192},
    "J21": {"m": 4096}, "J23": {"n": 1024},
    "N8": {"m": 64, "n": 256}, "N9": {"n": 2048}, "N10": {"s": 512, "d": 64}, "N11": {"n": 1 << 22, "k": 500},
}  # fmt: skip


# N11 is there for its 5,000 operators and a limit on seconds, which tests hold; eleven extractors on four devices would
# take minutes here.
SHORTER: Mapping[str, Mapping[str, int]] = {"N11": {"k": 500}}


@dataclass(frozen=True)
class Subject:
    """One program. `group`: "suite", "controls", "index maps", "pairs", "scans", "interplay", "networks". Graphs are
    made when asked for."""

    id: str
    group: str
    full: Callable[[], Graph]
    fits: Callable[[], Graph]  # the size that is measured
    small: Callable[[], Graph]
    sizes: str  # of what is measured, where they are not the full ones
    searched: tuple[float, float] | None = None  # seconds of TASO and TENSAT


def _case(case: Case, group: str) -> Subject:
    def builder(sizes: Mapping[str, int]) -> Callable[[], Graph]:
        def make() -> Graph:
            function, types = case.build(**sizes)
            return trace(function, *[spec(t.shape, t.dtype) for t in types])

        return make

    fits = FITS.get(case.id, {})
    full = {**case.full, **SHORTER.get(case.id, {})}
    return Subject(case.id, group, builder(full), builder({**case.full, **fits}), builder(case.small), _sizes(fits))


def _network(network: Network) -> Subject:
    return Subject(
        network.id, "networks", lambda: traced(network, network.full),
        lambda: built(network, network.full | network.fits), lambda: built(network, network.small),
        _sizes(network.fits), network.searched,
    )  # fmt: skip


def _sizes(changed: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in changed.items())


SUBJECTS: Mapping[str, Subject] = {
    subject.id: subject
    for subject in (
        *(_case(case, "suite") for case in GRAPHS.values()),
        *(_case(case, "controls") for case in CONTROLS.values()),
        *(_case(case, "index maps") for case in INDEX_MAPS.values()),
        *(_case(case, "pairs") for case in PAIRS.values()),
        *(_case(case, "scans") for case in SCANS.values()),
        *(_case(case, "interplay") for case in INTERPLAY.values()),
        *(_network(network) for network in NETWORKS.values()),
    )
}
