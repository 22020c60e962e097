"""Whether laws make two functions equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eqfuse.budget import Budget
from eqfuse.egraph.saturate import saturate
from eqfuse.frontends.numpy.trace import spec, trace


def meet(left: Callable, right: Callable, *arguments: Any, numerics: str = "reassociate", laws: Any = "all") -> bool:
    """Do both end in one class? `arguments`: types, or shapes of float32."""

    def both(*args: Any) -> tuple[Any, Any]:
        return left(*args), right(*args)

    graph = trace(both, *(spec(a, np.float32) if isinstance(a, tuple) else a for a in arguments))
    (segment,) = saturate(graph, laws=laws, numerics=numerics, budget=Budget(seconds=30)).segments
    return segment.roots[0] == segment.roots[1]
