"""All networks that the benchmarks and tests run, by name."""

from __future__ import annotations

from eqfuse.benches.corpus import language, mirage, vision
from eqfuse.benches.corpus.network import Network

NETWORKS: dict[str, Network] = {n.id: n for n in (*language.NETWORKS, *vision.NETWORKS, *mirage.NETWORKS)}
