"""`ef.checkpoint`: which values of a function a backward pass in a program of its own may keep.

In: a function and a policy. Out: a function of the same values. Forward and backward pass in one program are free of
it: what is kept there and what is computed again, the search decides.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from eqfuse.errors import OptionError, TraceError
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.frontends.numpy.tracing import current, differentiated
from eqfuse.gradients.call import ResultTree, own_arrays
from eqfuse.ir.graph import Node, topological
from eqfuse.ir.pytree import tree_leaves
from eqfuse.ops import Role

Policy = Callable[[Node], bool]  # may the value be kept?


class checkpoint_policies:
    """Which values of a checkpoint are kept for the backward pass, under JAX's names: functions of a node."""

    @staticmethod
    def nothing_saveable(_value: Node) -> bool:
        """None."""
        return False

    @staticmethod
    def everything_saveable(_value: Node) -> bool:
        """All."""
        return True

    @staticmethod
    def dots_saveable(value: Node) -> bool:
        """Those of products and convolutions."""
        return value.row.role is Role.CONTRACTION


_POLICIES: dict[str, Policy] = {
    name: getattr(checkpoint_policies, name) for name in ("nothing_saveable", "everything_saveable", "dots_saveable")
}


def checkpoint(fun: Callable[..., Any], policy: Policy | str | None = None) -> Callable[..., Any]:
    """`fun`, whose inner values a backward pass computes again, but for those that `policy` lets it keep: one of
    `ef.checkpoint_policies`, its name, or a function of a node. Without one, none.

    It shows in the residuals of `ef.vjp` and `ef.split_vjp`. In one program, ``ef.jit(ef.grad(f))``, what is computed
    again is chosen by price and `memory_limit`, with or without it.
    """
    if not callable(fun):
        raise TraceError(f"ef.checkpoint takes a function, not {fun!r}")
    if policy is None:
        policy = checkpoint_policies.nothing_saveable
    chosen = _POLICIES.get(policy) if isinstance(policy, str) else policy
    if not callable(chosen):
        raise OptionError(
            f"ef.checkpoint: the policy is {policy!r}: give one of ef.checkpoint_policies ({', '.join(_POLICIES)})"
        )

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        trace = differentiated()
        if trace is None or trace is not current():
            return fun(*args, **kwargs)
        return _marked(fun, args, kwargs, chosen)

    return call


remat = checkpoint


def _marked(fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], policy: Policy) -> Any:
    """What `fun` returns; the values that it makes and `policy` does not keep are noted in the trace."""
    trace = current()
    assert trace is not None
    arrays = [leaf for leaf in tree_leaves((args, kwargs))[0] if isinstance(leaf, Tracer)]
    argument_nodes = [x.node for x in arrays]
    with trace.within("a function that ef.checkpoint marks") as inner:
        inner.differentiated, inner.places = trace.differentiated, trace.places
        own_args, own_kwargs = own_arrays((args, kwargs))
        returned = ResultTree(fun(*own_args, **own_kwargs))
        after = [leaf.node for leaf in tree_leaves((own_args, own_kwargs))[0] if isinstance(leaf, Tracer)]
    outside = {*topological(argument_nodes), *topological(inner.captured)}
    results = [*returned.nodes, *(n for n, before in zip(after, argument_nodes, strict=True) if n is not before)]
    operators = [n for n in topological(results) if n.args and n not in outside and n.op != "stopped"]
    trace.again.update(dict.fromkeys(n for n in operators if n not in results and not policy(n)))
    trace.again.update(inner.again)
    _write_back(arrays, argument_nodes, after)
    return returned.tree(returned.nodes)


def _write_back(arrays: Sequence[Tracer], argument_nodes: Sequence[Node], after: Sequence[Node]) -> None:
    """Let each of the `arrays`, which were `argument_nodes`, be what it is `after` the function that got it."""
    for i, (x, before, value) in enumerate(zip(arrays, argument_nodes, after, strict=True)):
        if value is before:
            continue
        if x.is_of([*arrays[:i], *arrays[i + 1 :]]):
            raise TraceError(
                "a function that ef.checkpoint marks writes to an argument that shares memory with another one: pass "
                "copies (x.copy())"
            )
        x.assign(wrap(value))
