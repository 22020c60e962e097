"""`ef.custom_vjp`: functions whose gradient the user writes.

In: a function, and its rule: `fwd` gives its result and residuals, `bwd` takes these and a cotangent to cotangents of
the arguments. Out: a function. Within one that is differentiated, a call of it is one node, `custom_call`, until the
derivative is made: it then is what `fwd` computes, and its change a node that `bwd` transposes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.errors import DtypeError, OptionError, ShapeError, TraceError
from eqfuse.frontends.numpy.bodies import closed, stands_for
from eqfuse.frontends.numpy.carries import tree_text
from eqfuse.frontends.numpy.leaves import leaf_of, leaf_tracer
from eqfuse.frontends.numpy.number import is_number
from eqfuse.frontends.numpy.promotion import lift, with_dtype
from eqfuse.frontends.numpy.storage import Rights
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.frontends.numpy.tracing import Trace, current, differentiated
from eqfuse.gradients.call import ResultTree, name_of
from eqfuse.gradients.expr import filled
from eqfuse.gradients.overflow import exponentials_bounded
from eqfuse.gradients.row import NoDerivative
from eqfuse.ir.graph import Body, Graph, Node, node
from eqfuse.ir.loops import loop_results
from eqfuse.ir.pytree import tree_leaves, unflatten
from eqfuse.ops.types import TensorType

_ARRAY = object()  # in the place of an array


class custom_vjp:
    """`fun`, whose gradient is what ``f.defvjp(fwd, bwd)`` says. JAX's conventions: ``fwd(*args)`` returns the result
    and residuals, ``bwd(residuals, cotangent)`` a tuple of cotangents, one per argument, None for zero.

    Arguments at the places `nondiff_argnums` are no arrays that change: `bwd` gets them first.
    """

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: int | Sequence[int] = ()) -> None:
        if not callable(fun):
            raise TraceError(f"ef.custom_vjp takes a function, not {fun!r}")
        functools.update_wrapper(self, fun)
        places = [nondiff_argnums] if isinstance(nondiff_argnums, int) else nondiff_argnums
        self.fun, self.nondiff_argnums = fun, tuple(places)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Say how the function is differentiated."""
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        trace = current()
        if trace is None:
            return self.fun(*args, **kwargs)
        trace.rules[name_of(self.fun)] = None
        if differentiated() is None:
            return self.fun(*args, **kwargs)
        call = _RuleCall(self, self._bound(args, kwargs))
        return call.results.tree(loop_results(node("custom_call", call.takes, (call,))))

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<ef.custom_vjp of {name_of(self.fun)}>"

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments by position, those that have a default among them."""
        bound = inspect.signature(self.fun).bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TraceError(
                f"ef.custom_vjp of {name_of(self.fun)}: the arguments {', '.join(bound.kwargs)} can be given by name "
                "alone, and a rule takes its arguments by position: make them positional"
            )
        return list(bound.args)


class _RuleCall:
    """One call of a function with a rule, in a trace that is differentiated.

    `takes`: the arrays that its arguments hold, `own` of them, and then what the function reads from around it, where
    arguments at `nondiff_argnums` are those `said_not_to_change`. It keeps no traced array, which is one for a while.
    """

    def __init__(self, rule: custom_vjp, args: list[Any]) -> None:
        self.rule, self.count, self.name = rule, len(args), name_of(rule.fun)
        count = self.count
        for place in rule.nondiff_argnums:
            if not -count <= place < count:
                raise OptionError(
                    f"ef.custom_vjp: nondiff_argnums is {rule.nondiff_argnums}, and {self.name} is called with {count} "
                    "arguments"
                )
        self.apart = {place: args[place] for place in sorted({place % count for place in rule.nondiff_argnums})}
        self.places = [i for i in range(count) if i not in self.apart]
        trees = [tree_leaves(args[i]) for i in self.places]
        self.structures = [structure for _, structure in trees]
        values = [lift(leaf) for leaves, _ in trees for leaf in leaves if _is_array(leaf)]
        self.leaves = [[_ARRAY if _is_array(leaf) else leaf for leaf in leaves] for leaves, _ in trees]
        self.types = [v.node.type for v in values]
        self.kinds = [*map(leaf_of, values)]
        self.own = len(values)
        inputs = stands_for(self.types)
        result_trees: list[ResultTree] = []
        nodes, trace = self._traced(lambda: rule.fun(*map(_left_alone, self.arguments(inputs))), result_trees)
        self.results = result_trees[0]
        if not self.results.all_arrays:
            raise TraceError(f"ef.custom_vjp: {self.name} returns what is no array: let it return arrays")
        names = [(f"argument {i}", n) for i, n in enumerate(inputs)]
        (self.value,), shared = closed(names, [nodes], {*trace.captured})
        self.takes = [*(v.node for v in values), *shared]
        apart = {x.node for x in tree_leaves([*self.apart.values()])[0] if isinstance(x, Tracer)}
        self.said_not_to_change = {i for i, n in enumerate(self.takes) if i >= self.own and n in apart}

    def arguments(self, nodes: Sequence[Node]) -> list[Any]:
        """The arguments of the call, with `nodes` in place of their arrays."""
        passed, rest = dict(self.apart), iter(zip(nodes, self.kinds, strict=True))
        for place, leaves, structure in zip(self.places, self.leaves, self.structures, strict=True):
            passed[place] = unflatten(structure, [leaf_tracer(*next(rest)) if x is _ARRAY else x for x in leaves])
        return [passed[i] for i in range(self.count)]

    def forward(self) -> tuple[list[Node], list[Node], list[Node]]:
        """Stand-ins for the arrays among the arguments; the results, and the residuals, as `fwd` computes them."""
        fwd = self.rule.fwd
        if fwd is None:
            raise NoDerivative(f"{self.name} has no rule: say {self.name}.defvjp(fwd, bwd)")
        inputs = stands_for(self.types)
        result_trees: list[ResultTree] = []

        def call() -> Any:
            pair = fwd(*self.arguments(inputs))
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TraceError(f"the fwd of {self.name} returns two things, the result and residuals")
            result_trees.append(ResultTree(pair[0]))
            return pair[1]

        nodes, trace = self._traced(call, result_trees)
        self._refuse_captured("fwd", trace)
        returned, self.residuals = result_trees
        result_types = tuple(n.type for n in returned.nodes)
        if tree_text(returned.structure) != tree_text(self.results.structure) or result_types != self.value.gives:
            raise ShapeError(
                f"the fwd of {self.name} returns {_described(returned)} as its result, and {self.name} "
                f"{_described(self.results)}"
            )
        return inputs, nodes[: len(result_types)], nodes[len(result_types) :]

    def backward(self) -> Body:
        """The graph from residuals and cotangents of the results to cotangents of the arrays among the arguments."""
        inputs = stands_for([*(n.type for n in self.residuals.nodes), *self.value.gives])
        count, cotangents = len(self.residuals.nodes), []

        def call() -> Any:
            assert self.rule.bwd is not None
            kept, cotangent = self.residuals.tree(inputs[:count]), self.results.tree(inputs[count:])
            cotangents.extend(self._cotangents(self.rule.bwd(*self.apart.values(), kept, cotangent)))
            return [wrap(n) for n in cotangents]

        nodes, trace = self._traced(call, [])
        self._refuse_captured("bwd", trace)
        return Body(Graph(tuple(inputs), tuple(nodes)))

    def _cotangents(self, returned: Any) -> list[Node]:
        """One per array among the arguments, of its type; zeros of those that do not change smoothly."""
        if not isinstance(returned, (tuple, list)) or len(returned) != len(self.places):
            kind = f"{len(returned)} things" if isinstance(returned, (tuple, list)) else type(returned).__name__
            raise TraceError(
                f"the bwd of {self.name} returns a tuple of {len(self.places)} cotangents, one per argument, and not "
                f"{kind}"
            )
        types, cotangents = iter(self.types), []
        for place, leaves, like, ct in zip(self.places, self.leaves, self.structures, returned, strict=True):
            ct_leaves, structure = tree_leaves(ct)
            if ct is not None and tree_text(structure) != tree_text(like):
                raise TraceError(
                    f"the bwd of {self.name} returns {tree_text(structure)} for argument {place}, which nests as "
                    f"{tree_text(like)}"
                )
            for leaf, x in zip(leaves, ct_leaves if ct is not None else [None] * len(leaves), strict=True):
                if leaf is _ARRAY:
                    cotangents.append(self._cotangent(x, next(types), place))
        return cotangents

    def _cotangent(self, x: Any, t: TensorType, place: int) -> Node:
        if x is None or kind(t.dtype) not in "fc":
            return filled(0, t).node
        array = wrap(with_dtype(x, t.dtype)) if is_number(x) else lift(x)
        if array.tensor_type != t:
            error = DtypeError if array.shape == t.shape else ShapeError
            raise error(f"the bwd of {self.name} returns {array.tensor_type} for argument {place}, which is {t}")
        return array.node

    def _traced(self, call: Callable[[], Any], result_trees: list[ResultTree]) -> tuple[list[Node], Trace]:
        """The arrays that `call` returns, behind those of the `result_trees` before."""
        outer = current()
        assert outer is not None
        with outer.within(f"{self.name}, which has a rule for its gradient,") as trace:
            trace.differentiated = exponentials_bounded
            result_trees.append(ResultTree(call()))
        return [n for each in result_trees for n in each.nodes], trace

    def _refuse_captured(self, which: str, trace: Trace) -> None:
        if trace.captured:
            raise TraceError(
                f"the {which} of {self.name} reads a traced {next(iter(trace.captured)).type} from around it: make it "
                "an argument of the function, or a residual"
            )


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (Tracer, np.ndarray, np.generic))


def _left_alone(value: Any) -> Any:
    """`value`, to whose arrays nobody may write: others than the function may read them later."""
    leaves, structure = tree_leaves(value)
    kept = [isinstance(leaf, Tracer) and not leaf.scalar for leaf in leaves]
    if not any(kept):
        return value
    views = [x.viewed(access=Rights.OF_RULE) if k else x for x, k in zip(leaves, kept, strict=True)]
    return unflatten(structure, views)


def _described(tree: ResultTree) -> str:
    return f"{tree_text(tree.structure)} of {', '.join(str(n.type) for n in tree.nodes)}"
