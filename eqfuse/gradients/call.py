"""One call of a function within a trace, on stand-ins for the arguments in which it is differentiated.

In: a function or a graph, and its arguments. Out: `Call`: its results as nodes over the stand-ins, and what becomes of
nodes where these are the arguments again. The function runs in a trace of its own, within the one around it: it may
read what is traced outside, which then is a constant, and what it writes into its arguments stays within.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eqfuse.dtypes import kind
from eqfuse.errors import DtypeError, OptionError, ShapeError, TraceError, UnsupportedOp
from eqfuse.frontends.numpy.carries import tree_text
from eqfuse.frontends.numpy.leaves import leaf_of, leaf_tracer
from eqfuse.frontends.numpy.number import Number, is_number
from eqfuse.frontends.numpy.origins import note_instead, note_places
from eqfuse.frontends.numpy.promotion import lift, with_dtype
from eqfuse.frontends.numpy.tracer import Tracer, wrap
from eqfuse.frontends.numpy.tracing import current, differentiated
from eqfuse.gradients.linearise import changes, line_below
from eqfuse.gradients.overflow import exponentials_bounded
from eqfuse.gradients.rules import calls_inlined
from eqfuse.gradients.transpose import NoTranspose, cotangents
from eqfuse.ir.graph import Graph, Node, input_node, substitute
from eqfuse.ir.parameters import parameters_of
from eqfuse.ir.pytree import Structure, paths, tree_leaves, unflatten
from eqfuse.ir.strides import MemoryLayout, strides_of
from eqfuse.ops.types import TensorType

_serial = itertools.count()
_OPTIONS_LACKING = {"ef.vjp": ("argnums",), "ef.jvp": ("argnums",), "ef.split_vjp": ("has_aux",)}


def own_inputs(names: Sequence[str], types: Sequence[TensorType]) -> list[Node]:
    """Inputs that nobody else has."""
    number = next(_serial)
    return [input_node(f"{name} of call {number}", t) for name, t in zip(names, types, strict=True)]


def name_of(fn: Any) -> str:
    return str(getattr(fn, "__name__", "the graph" if isinstance(fn, Graph) else "the function"))


def callable_of(fn: Any) -> Callable[..., Any]:
    """`fn`, which is differentiated."""
    if not callable(fn):
        raise TraceError(f"a function or a graph is differentiated, not {fn!r}")
    return fn


class DifferentiatedCall:
    """`fn(*args, **kwargs)`, differentiated in the arguments at the places `chosen`.

    `arguments`: the nodes of these arguments' leaves; `stand_ins`: the inputs in their place.
    """

    def __init__(
        self, what: str, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], chosen: Sequence[int], has_aux: bool
    ) -> None:
        outer = current()
        assert outer is not None
        self.fn, self.what, self.has_aux = fn, what, has_aux
        leaves, self.structure = tree_leaves(tuple(args[i] for i in chosen))
        names = self._names(args, chosen)
        self.paths = [p for name, child in zip(names, self.structure.children, strict=True) for p in paths(child, name)]
        for place, child in zip(chosen, self.structure.children, strict=True):
            if not paths(child):
                name = names[chosen.index(place)]
                raise TraceError(f"{what}: the argument {name} holds no arrays to differentiate in")
        arrays = [self._array(leaf, path) for leaf, path in zip(leaves, self.paths, strict=True)]
        self.arguments = [a.node for a in arrays]
        self.leaves = [*map(leaf_of, arrays)]
        self._layouts = [lying_as(a) for a in arrays]
        self.stand_ins = own_inputs(self.paths, [n.type for n in self.arguments])
        with outer.within(f"{name_of(fn)}, which {what} differentiates,") as self.trace:
            self.trace.places, self.trace.differentiated = {}, exponentials_bounded
            passed = list(map(own_arrays, args))
            stands = self.argument_trees(self.stand_ins, self._layouts)
            for i, stand in zip(chosen, stands, strict=True):
                passed[i] = stand
            result = callable_of(fn)(*passed, **{name: own_arrays(v) for name, v in kwargs.items()})
            result, aux = self._pair(result) if has_aux else (result, None)
            self.result, self.aux = ResultTree(result, numbers=True), ResultTree(aux)
        note_places(self.trace.places, [*self.result.nodes, *self.aux.nodes])
        self._values = dict(zip(self.stand_ins, self.arguments, strict=True))
        self._loops: dict[Node, Node] = {}  # of changes, and the ones that they are of
        around = differentiated()
        if around is not None:
            around.again.update(dict.fromkeys(self.again))

    def _pair(self, result: Any) -> Any:
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            several = isinstance(result, (tuple, list))
            kind = f"{len(result)} values" if several else "an array" if _is_array(result) else type(result).__name__
            raise TraceError(
                f"{self.what} with has_aux=True: {name_of(self.fn)} returns a pair, what is differentiated and all "
                f"else (return loss, aux), and not {kind}"
            )
        return result

    def _names(self, args: tuple[Any, ...], chosen: Sequence[int]) -> list[str]:
        signature = parameters_of(self.fn)
        declared = list(signature.parameters.values()) if signature is not None else []
        is_positional = [p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in declared]
        return [declared[i].name if i < len(declared) and is_positional[i] else f"args[{i}]" for i in chosen]

    def _instead(self, option: str, advice: str) -> str:
        """The `advice`, where there is the `option` that it names."""
        return "" if option in _OPTIONS_LACKING.get(self.what, ()) else advice

    def _array(self, leaf: Any, path: str) -> Tracer:
        if not (_is_array(leaf) or is_number(leaf)):
            raise TraceError(f"{self.what}: the argument {path} is a {type(leaf).__qualname__}, and not an array")
        array = lift(leaf)
        if kind(array.dtype) not in "fc":
            raise DtypeError(
                f"{self.what}: the argument {path} is {array.tensor_type}, and only floats and complex numbers change "
                f"smoothly. Pass it as a float{self._instead('argnums', ', name other arguments in argnums')}, or let "
                "the function read it from around it"
            )
        return array

    def steps(self) -> list[Node]:
        """Inputs that stand for changes of the arguments."""
        return own_inputs([f"change of {path}" for path in self.paths], [n.type for n in self.stand_ins])

    def changes(self, steps: Sequence[Node]) -> list[Node | None]:
        """What the results change by, where the arguments change by `steps`. DtypeError for integers among them."""
        for path, n in zip(self.result.paths, self.result.nodes, strict=True):
            if kind(n.dtype) not in "fc":
                raise DtypeError(
                    f"{self.what}: the {path} of {name_of(self.fn)} is {n.type}, which has no derivative: return a "
                    f"float{self._instead('has_aux', ', or return it as aux, with has_aux=True')}"
                )
        if not self.result.all_arrays:
            raise TraceError(
                f"{self.what}: {name_of(self.fn)} returns what is no array: return "
                f"{self._instead('has_aux', 'it as aux, with has_aux=True') or 'arrays alone'}"
            )
        replaced: dict[Node, Node] = {}
        seeds = dict(zip(self.stand_ins, steps, strict=True))
        tangents = changes(self.result.nodes, seeds, self.trace.places, replaced, self._loops)
        for loop, instead in replaced.items():
            (self._values[loop],) = self.back([instead])
        return tangents

    def cotangents(self, tangents: Sequence[Node | None], steps: Sequence[Node], seeds: Sequence[Node]) -> list[Node]:
        """Those of the arguments, whose changes are the `steps`. UnsupportedOp for a loop whose steps data count."""
        try:
            return cotangents(tangents, steps, seeds)
        except NoTranspose as error:
            loop = self._loops.get(error.loop, error.loop)
            raise UnsupportedOp(
                f"{error.op} has no gradient, as data decide how many steps it has: ef.jvp goes through it. ef.scan "
                "has one, and ef.fori_loop whose bounds are known while tracing: name those in static_argnames, or run "
                "the most steps there may be, those from n on with np.where(i < n, after, before)"
                + line_below(loop, self.result.nodes, self.trace.places)
            ) from None

    def back(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """`nodes` over the arguments, in place of their stand-ins."""
        results = substitute(nodes, self._values)
        note_instead(self._values)
        return tuple(calls_inlined(results)) if differentiated() is None else results

    @property
    def again(self) -> tuple[Node, ...]:
        """The values that a backward pass must compute again."""
        return self.back([*self.trace.again])

    def argument_trees(self, nodes: Sequence[Node], layouts: Sequence[MemoryLayout | None] = ()) -> tuple[Any, ...]:
        """`nodes`, one per leaf of the chosen arguments, nested as these are; in memory of the `layouts`."""
        each = itertools.zip_longest(nodes, self.leaves, layouts)
        tree: tuple[Any, ...] = unflatten(self.structure, [leaf_tracer(*one) for one in each])
        return tree


class ResultTree:
    """What a function returns, as a tree: the nodes of its arrays, and all else as it is. With `numbers`, those of
    Python are arrays too: a loss of no terms is 0.0."""

    def __init__(self, tree: Any, numbers: bool = False) -> None:
        leaves, self.structure = tree_leaves(tree)
        self.paths = paths(self.structure, "result")
        arrays = {i: lift(leaf) for i, leaf in enumerate(leaves) if _is_array(leaf) or (numbers and is_number(leaf))}
        self.nodes = [a.node for a in arrays.values()]
        self.leaves = [*map(leaf_of, arrays.values())]
        self._others = [None if i in arrays else leaf for i, leaf in enumerate(leaves)]
        self._places = list(arrays)

    @property
    def all_arrays(self) -> bool:
        return len(self._places) == len(self._others)

    def tree(self, nodes: Sequence[Node]) -> Any:
        """The tree with `nodes` in place of its own."""
        return self.nested([leaf_tracer(n, leaf) for n, leaf in zip(nodes, self.leaves, strict=True)])

    def nested(self, values: Sequence[Any]) -> Any:
        """The tree with `values` in place of its arrays."""
        leaves = list(self._others)
        for i, value in zip(self._places, values, strict=True):
            leaves[i] = value
        return unflatten(self.structure, leaves)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (Tracer, Number, np.ndarray, np.generic))


def lying_as(array: Tracer) -> MemoryLayout | None:
    """The layout of an array that lies in memory as this one does, as far as that is known: what is a view of the one
    is then a view of the other."""
    outline = array.outline()
    if outline is None or array.layout is None:
        return None
    return MemoryLayout(strides_of(outline), array.layout.arguments)


def own_arrays(value: Any) -> Any:
    """`value`, with arrays of its own where they are traced: writing into them changes nobody else's."""
    leaves, structure = tree_leaves(value)
    if not any(isinstance(leaf, Tracer) for leaf in leaves):
        return value
    own = [leaf_tracer(x.node, leaf_of(x), lying_as(x)) if isinstance(x, Tracer) else x for x in leaves]
    return unflatten(structure, own)


def nodes_of(what: str, tree: Any, like: Structure, types: Sequence[TensorType]) -> list[Node]:
    """The leaves of `tree`, which nests as `like`, and whose arrays have `types`."""
    leaves, structure = tree_leaves(tree)
    if tree_text(structure) != tree_text(like):
        raise TraceError(f"{what} nest as {tree_text(structure)}, and not as {tree_text(like)}")
    nodes = []
    for leaf, path, t in zip(leaves, paths(structure, ""), types, strict=True):
        array = wrap(with_dtype(leaf, t.dtype)) if is_number(leaf) else lift(leaf)
        if array.tensor_type != t:
            error = DtypeError if array.shape == t.shape else ShapeError
            raise error(f"{what}{f' at {path}' if path else ''}: {array.tensor_type} was given for what is {t}")
        nodes.append(array.node)
    return nodes


def argument_places(argnums: Any, count: int, what: str, name: str) -> tuple[tuple[int, ...], bool]:
    """The arguments that `argnums` means among `count` positional ones, and whether it was one number."""
    one = not isinstance(argnums, (tuple, list))
    places = []
    for i in (argnums,) if one else argnums:
        if not isinstance(i, (int, np.integer)) or isinstance(i, bool):
            raise OptionError(
                f"{what}: argnums is {argnums!r}: give the place of a positional argument, or a tuple of places"
            )
        if not -count <= i < count:
            raise OptionError(
                f"{what}: argnums is {argnums!r}, and {name} is called with {count} positional arguments, in which "
                "alone it is differentiated"
            )
        places.append(int(i) % count)
    if len(set(places)) < len(places):
        raise OptionError(f"{what}: argnums {argnums!r} names an argument twice")
    return tuple(places), one
