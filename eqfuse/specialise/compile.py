"""`ef.compile`: the program of a function, for the types of its examples, or for all sizes of their symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from eqfuse.budget import Budget, Meter, budget_of
from eqfuse.cost.device import Device
from eqfuse.errors import ArgumentError
from eqfuse.frontends.numpy.trace import trace
from eqfuse.ir.graph import Graph
from eqfuse.ir.parameters import static_names
from eqfuse.ir.pytree import tree_leaves
from eqfuse.ir.symbolic import SymbolicSpec
from eqfuse.options import one_size, refuse_unknown
from eqfuse.runtime.program import Program
from eqfuse.show.progress import patiently
from eqfuse.specialise.calls import FunctionCall
from eqfuse.specialise.symbolic_program import SymbolicProgram
from eqfuse.specialise.tuning import compiled


def compile(
    fn_or_graph: Callable[..., Any] | Graph,
    *example_args: Any,
    target: str | Device = "cpu",
    numerics: str = "reassociate",
    laws: Any = "all",
    extractor: str = "flow",
    budget: Budget | None = None,
    memory_limit: float | None = None,
    verify: bool = False,
    wait: bool = True,
    graphs: bool = False,
    autotune: bool = False,
    static_argnames: str | Iterable[str] = (),
    **example_kwargs: Any,
) -> Program:
    """The fused program of a NumPy function (traced on the examples: arrays or `ef.spec`s) or of a graph.

    Specs with symbols, such as ``ef.spec(("n", 64))``, give a `SymbolicProgram`, which runs at every size of them.
    Keywords that are not among these options are the function's own, as in `trace`.
    `target`: "numpy", "cpu", "c", "cuda", "cuda:h100" and other profile names, or an `ef.Device`. `numerics`: "strict",
    "reassociate" or "approximate", the most a law may do to rounding. `laws`: "all", "none", a family, or a list of
    laws and families; your own laws are checked once (LawError: a false one), but those with ``check=False``.
    `memory_limit`: bytes that a call may hold beside its arguments and results, which costs time: values are computed
    again, or block by block, where that adds least; MemoryLimitError where no plan was found. `verify` runs the
    program once on random inputs and raises EqfuseError unless it agrees with the evaluator. ``wait=False``: a program
    whose kernels are compiled, in C, runs as NumPy calls until they are (``program.wait()`` waits until then): a thread
    compiles them, and results change by roundings when it is done. ``graphs=True``, on a GPU: from its second call on
    a stream a program starts its kernels all at once, as a CUDA graph. Results are new arrays all the same. A graph
    knows arrays by address: of arguments and results that keep having others, it works on copies, in memory it keeps.
    ``autotune=True``: of what several searches choose, each within the budget, the program that is fastest on random
    inputs; which one that is, is kept.
    """
    options: dict[str, Any] = {
        "target": target, "numerics": numerics, "laws": laws, "extractor": extractor, "budget": budget,
        "memory_limit": memory_limit, "verify": verify, "wait": wait, "graphs": graphs,
    }  # fmt: skip
    refuse_unknown(options | {"autotune": autotune})
    if isinstance(fn_or_graph, Graph):
        if example_args or example_kwargs or static_argnames:
            raise ArgumentError("a graph has the types of its inputs: ef.compile takes no example arguments beside it")
        return compiled(fn_or_graph, None, autotune, options)
    if not callable(fn_or_graph):
        raise ArgumentError(f"ef.compile takes a function or a graph, not {fn_or_graph!r}")
    if any(isinstance(leaf, SymbolicSpec) for leaf in tree_leaves((example_args, example_kwargs))[0]):
        one_size(options | {"autotune": autotune}, "give specs without symbols")
        call = FunctionCall(fn_or_graph, static_names(static_argnames), example_args, example_kwargs)
        return SymbolicProgram(call, options)
    meter = Meter(budget_of(budget))
    with patiently() as tell:
        tell("tracing")
        graph = trace(fn_or_graph, *example_args, static_argnames=static_argnames, **example_kwargs)
        return compiled(graph, meter, autotune, options)
