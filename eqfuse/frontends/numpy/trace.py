"""Tracing: a NumPy function and example arguments in, a `Graph` out. Next stop: `egraph.saturate`.

The function runs once, on tracers. Arrays it finds elsewhere (closures, globals) become constants; what it does to its
arguments in place becomes further outputs, which a call writes back.
"""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, overload

import numpy as np

from eqfuse.dtypes import tensor_dtype
from eqfuse.errors import EqfuseError, ShapeError, TraceError, users_line_of
from eqfuse.frontends.numpy import families as families
from eqfuse.frontends.numpy.leaves import leaf_of
from eqfuse.frontends.numpy.number import Number
from eqfuse.frontends.numpy.origins import note_places
from eqfuse.frontends.numpy.outside import OutsideState, leaving_alone
from eqfuse.frontends.numpy.placing import stand_ins
from eqfuse.frontends.numpy.random import GENERATORS, TracedGenerator
from eqfuse.frontends.numpy.scipy_fft import traced_transforms
from eqfuse.frontends.numpy.selection import Selection
from eqfuse.frontends.numpy.stand_ins import stand_in_for
from eqfuse.frontends.numpy.tracer import Tracer, argument
from eqfuse.frontends.numpy.tracing import Trace
from eqfuse.ir.accepted import supported_array
from eqfuse.ir.arithmetic import NUMBER_KINDS
from eqfuse.ir.graph import Graph, Node, const, input_node, topological
from eqfuse.ir.parameters import CallForms, are_parameters, bound_arguments, parameters_of, static_names
from eqfuse.ir.places import spread
from eqfuse.ir.pytree import LEAF, SCALAR, Static, Structure, tree_leaves, unflatten
from eqfuse.ir.signature import CallSignature, input_names
from eqfuse.ir.strides import Strides, strides_of
from eqfuse.ir.symbolic import SymbolicSpec, symbolic_shape
from eqfuse.machine.device_arrays import array_dtype, dlpack_device
from eqfuse.ops.types import TensorType


class Spec:
    """Stands for an array argument of which only shape and dtype matter, and sometimes how it lies in memory."""

    __slots__ = ("type", "strides")

    def __init__(self, type: TensorType, strides: Strides = None) -> None:
        self.type, self.strides = type, strides

    def __repr__(self) -> str:
        return f"spec({self.type.shape}, {self.type.dtype.name!r})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        return self.type.dtype


@overload
def spec(shape: int | Sequence[int], dtype: Any = ...) -> Spec: ...


@overload
def spec(shape: str | Sequence[int | str], dtype: Any = ...) -> Spec | SymbolicSpec: ...


def spec(shape: Any, dtype: Any = np.float64) -> Spec | SymbolicSpec:
    """An example argument for `trace` and `compile` without data.

    A string among the extents, as in ``("n", 64)``, is a symbol: `compile` then makes a program for all its sizes.
    """
    extents = symbolic_shape(shape if np.iterable(shape) and not isinstance(shape, str) else (shape,))
    dtype = tensor_dtype(dtype, "the spec")
    numbers = tuple(n for n in extents if isinstance(n, int))
    if any(n < 0 for n in numbers):
        raise ShapeError(f"the spec has shape {extents}: an extent is 0 or more")
    return Spec(TensorType(dtype, numbers)) if len(numbers) == len(extents) else SymbolicSpec(extents, dtype)


def trace(
    fn: Callable[..., Any], /, *example_args: Any, static_argnames: str | Iterable[str] = (), **example_kwargs: Any
) -> Graph:
    """The graph of `fn` for arguments like the examples (arrays, Python scalars, `spec`s, containers of these).

    Arguments named in `static_argnames` are used as they are: their values become part of the graph.
    """
    names = static_names(static_argnames)
    parameters = parameters_of(fn)
    are_parameters(names, parameters)
    if parameters is not None:
        bound_arguments(parameters, example_args, example_kwargs)
    (args, kwargs), fixed = CallForms(parameters, names).split(example_args, example_kwargs)
    leaves, structure = tree_leaves((args, kwargs))
    classes = {kind.__name__: kind for kind in _classes(structure)}
    roots = {getattr(fn, "__name__", "the function"): fn, **fixed, **classes}

    def attempt(outside: OutsideState) -> tuple[Graph, Trace]:
        with Trace() as run:
            with stand_ins(outside.reached), traced_transforms(), _explaining():
                run.places = {}
                graph = _traced(run, fn, parameters, names, leaves, structure, fixed)
                graph = replace(graph, places=spread(run.places, graph.outputs))
                note_places(run.places, graph.outputs)
            outside.settle()
        return graph, run

    return leaving_alone(roots, attempt)


@contextmanager
def _explaining() -> Iterator[None]:
    """What compiled code says of traced values that it is given, in our words. Where NumPy cannot set an element of an
    array to one, it hides our error behind its own."""
    try:
        yield
    except TypeError as error:
        if Tracer.__name__ not in str(error) or isinstance(error, EqfuseError) or str(error).startswith("unhashable"):
            raise
        raise TraceError(
            f"compiled code is given a traced array, and takes real ones alone ({error}): that of np.ma, of masked "
            "arrays, and of other libraries cannot be traced. Pass a mask as an array of its own, and call the library "
            "outside of the traced function",
            users_line_of(error),
        ) from None
    except ValueError as error:
        hidden = error.__cause__
        if not isinstance(hidden, TraceError):
            raise
        raise TraceError(
            "a traced value is written into an array k of plain numbers, which holds no traced ones. Make it an array "
            "that does, k = np.array(k), before k[…] = value, or np.empty(shape) where np.ndarray(shape) has made it. "
            "One made outside of the traced function stays as it is: pass it as an argument, if it is to change",
            hidden.where,
        ) from None


def _traced(
    run: Trace,
    fn: Callable[..., Any],
    parameters: inspect.Signature | None,
    names: frozenset[str],
    leaves: list[Any],
    structure: Structure,
    fixed: dict[str, Any],
) -> Graph:
    inputs: list[Node] = []
    layouts: list[Strides] = []
    apart: list[int] = []
    stands: list[Any] = []
    for place, (leaf, name) in enumerate(zip(leaves, input_names(parameters, structure), strict=True)):
        if is_apart(leaf):
            apart.append(place)
            stands.append(_stand_in(run, leaf, place, name))
            continue
        inputs.append(input_node(name, leaf_type(leaf, name)))
        layouts.append(layout_of(leaf))
        stands.append(argument(inputs[-1], len(inputs) - 1, isinstance(leaf, np.generic), layouts[-1]))
    traced_args, traced_kwargs = unflatten(structure, stands)
    stand_in = {name: stand for name, value in fixed.items() if (stand := stand_in_for(value)) is not None}
    result = _call(fn, parameters, traced_args, traced_kwargs, fixed | stand_in)
    _refuse_changed_containers(structure, stands, (traced_args, traced_kwargs))
    outputs, results = tree_leaves(result)
    written = tuple(sorted(run.written))
    nodes, sources, results = _outputs(outputs, results, written)
    own = [t for t in stands if isinstance(t, Tracer)]
    _refuse_reshaped(inputs, own)
    nodes += [own[i].node for i in written]
    relied = tuple((i, layouts[i]) for i in sorted(run.layouts))
    draws = tuple(draw for _, draw in run.draws)
    arithmetic, entered = run.numbers.finished(set(topological(nodes)))
    signature = CallSignature(
        parameters, names, structure, results, sources, written, relied, draws, tuple(apart), arithmetic,
        tuple(run.rules),
    )
    return Graph((*inputs, *(n for n, _ in run.draws if n is not None), *entered), tuple(nodes), signature)


def is_apart(leaf: Any) -> bool:
    """Is this leaf of the arguments no input of the graph?"""
    return type(leaf) in NUMBER_KINDS or isinstance(leaf, GENERATORS)


def _stand_in(run: Trace, leaf: Any, place: int, name: str) -> TracedGenerator | Number:
    """What stands for an argument that is no array."""
    if isinstance(leaf, GENERATORS):
        return TracedGenerator(place, leaf)
    return Number(run.numbers.argument("argument", (place, name), leaf))


def _refuse_changed_containers(structure: Structure, stands: list[Any], arguments: tuple) -> None:
    leaves, now = tree_leaves(arguments)
    if now != structure or any(a is not b for a, b in zip(leaves, stands, strict=True)):
        raise TraceError(
            "the function changes a container among its arguments (an item, a field, its length): the caller's would "
            "stay as it is. Return what is new, or write into the arrays themselves: d['x'][...] = value"
        )


def _refuse_reshaped(inputs: list[Node], stands: list[Tracer]) -> None:
    for n, t in zip(inputs, stands, strict=True):
        if t.shape != n.shape:
            raise TraceError(
                f"the function assigns to the shape of the argument {n.attr('name')!r}: the caller's array would keep "
                "its own. Write x = x.reshape(...)"
            )


def _classes(structure: Structure) -> Iterable[type]:
    """The classes among the containers: their methods may run while the function is traced."""
    if isinstance(structure.kind, type):
        yield structure.kind
    for child in structure.children:
        yield from _classes(child)


def _call(
    fn: Callable[..., Any],
    parameters: inspect.Signature | None,
    args: tuple,
    kwargs: dict[str, Any],
    fixed: dict[str, Any],
) -> Any:
    if not fixed:
        return fn(*args, **kwargs)
    assert parameters is not None
    # a static parameter leaves a gap among the positional ones, so the call is rebuilt by name
    arguments = dict(fixed)
    dynamic = [p for p in parameters.parameters.values() if p.name not in fixed]
    free = [p.name for p in dynamic if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    arguments.update(zip(free, args, strict=False))
    rest = args[len(free) :]
    variadic = next((p.name for p in dynamic if p.kind is p.VAR_POSITIONAL), None)
    if variadic is not None and rest:
        arguments[variadic] = rest
    bound = parameters.bind_partial()
    keywords = {k: v for k, v in kwargs.items() if k in parameters.parameters}
    extra = {k: v for k, v in kwargs.items() if k not in parameters.parameters}
    merged = {**arguments, **keywords}
    bound.arguments.update({name: merged[name] for name in parameters.parameters if name in merged})
    return fn(*bound.args, **{**bound.kwargs, **extra})


def leaf_type(leaf: Any, name: str) -> TensorType:
    """Type of the input that stands for `leaf`, an array."""
    if isinstance(leaf, Spec):
        return leaf.type
    if isinstance(leaf, Tracer):
        return leaf.node.type
    if isinstance(leaf, (np.ndarray, np.generic)):
        array = supported_array(leaf, f"the argument {name!r}")
        return TensorType(array.dtype, array.shape)
    if dlpack_device(leaf) is not None:
        return TensorType(tensor_dtype(array_dtype(leaf), f"the argument {name!r}"), tuple(leaf.shape))
    if isinstance(leaf, SymbolicSpec):
        raise TraceError(
            f"the argument {name!r} is {leaf}: a graph holds numbers for its extents. ef.compile takes symbols"
        )
    kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}".removeprefix("builtins.")
    if isinstance(leaf, numbers.Number):
        kept = next((k.__name__ for k in NUMBER_KINDS if isinstance(leaf, k)), "float")
        raise TraceError(
            f"the argument {name!r} is a {kind}, a number with a class of its own: pass {kept}({name}), or name it in "
            "static_argnames"
        )
    instead = (
        "Convert it by np.asarray, or name it in static_argnames"
        if hasattr(leaf, "__len__") or hasattr(leaf, "__array__")
        else "Pass the arrays it holds as arguments, or make its class a dataclass, whose fields are arguments. If it "
        "is named in static_argnames, its attributes are read once, when the function is traced, and never again"
    )
    raise TraceError(f"the argument {name!r} is a {kind}, not an array, a number, or a container of these. {instead}")


def layout_of(leaf: Any) -> Strides:
    """How an argument lies in memory: numbers, and `Spec`s that do not say, in C order."""
    if isinstance(leaf, Spec):
        return leaf.strides
    if isinstance(leaf, Tracer):
        return None
    lies = isinstance(leaf, (np.ndarray, np.generic)) or dlpack_device(leaf) is not None
    return strides_of(leaf) if lies else None


def _outputs(
    leaves: list[Any], structure: Structure, written: tuple[int, ...]
) -> tuple[list[Node], tuple[int, ...], Structure]:
    """Nodes of the results, and where each result is: among these, the arguments in `written` behind them, or the
    values of numbers behind those.

    What is no array (numbers that are known, None, the names that a dict or a dataclass holds) stays in the structure.
    """
    nodes: list[Node] = []
    sources: list[tuple[int, int]] = []  # which of the three, and the place there
    results = _placed(structure, iter(leaves), written, nodes, sources)
    first = (0, len(nodes), len(nodes) + len(written))
    return nodes, tuple([first[group] + place for group, place in sources]), results


def _refuse_text(value: Any, within: Any) -> None:
    """Text is no result, but beside arrays a dict or a dataclass may hold names."""
    if isinstance(value, (str, bytes)) and (within in (None, tuple, list) or _tells_of_traced(str(value))):
        raise TraceError(
            f"the function returns the text {value!r}, not an array, a number, or a container of these: return the "
            "arrays, and write about them outside"
        )


def _tells_of_traced(text: str) -> bool:
    return "Tracer(" in text or "Number(" in text


def _placed(
    s: Structure, rest: Iterator[Any], written: tuple[int, ...], nodes: list[Node], sources: list[tuple[int, int]],
    within: Any = None,
) -> Structure:  # fmt: skip
    """The structure of the results, whose leaves are added to `nodes` and `sources`. `within`: the container around."""
    if s.kind is Static:
        _refuse_text(s.keys[0], within)
        return s
    if s.kind is not None:
        children = [_placed(c, rest, written, nodes, sources, s.kind) for c in s.children]
        return s._replace(children=tuple(children))
    leaf = next(rest)
    if type(leaf) in NUMBER_KINDS:
        return Structure(Static, (leaf,))
    if isinstance(leaf, Number):
        sources.append((2, leaf.place))
        return LEAF
    if isinstance(leaf, Tracer) and leaf.argument in written:
        sources.append((1, written.index(leaf.argument)))
        return LEAF
    if isinstance(leaf, Selection):
        raise leaf.no_result
    sources.append((0, len(nodes)))
    if isinstance(leaf, Tracer):
        nodes.append(leaf.node)
        return leaf_of(leaf)
    if isinstance(leaf, (np.ndarray, np.generic)):
        nodes.append(const(supported_array(leaf, "a result")))
        return SCALAR if isinstance(leaf, np.generic) else LEAF
    kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}"
    raise TraceError(f"the function returns a {kind}, not an array, a number, or a container of these")
