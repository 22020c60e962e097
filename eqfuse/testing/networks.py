"""All networks that the benchmarks and tests run, by name."""

from __future__ import annotations

from eqfuse.testing import language, mirage, vision
from eqfuse.testing.network import Network

NETWORKS: dict[str, Network] = {n.id: n for n in (*language.NETWORKS, *vision.NETWORKS, *mirage.NETWORKS)}
