"""Tracing: a NumPy function and example arguments in, a `Graph` out. Next stop: `egraph.saturate`.

The function runs once, on tracers. Arrays it finds elsewhere (closures, globals) become constants; what it does to its
arguments in place becomes further outputs, which a call writes back.
"""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.lib.array_utils import byte_bounds

from eqfuse.arithmetic import KINDS, Arithmetic
from eqfuse.dtypes import supported, tensor_dtype
from eqfuse.errors import OptionError, ShapeError, TraceError
from eqfuse.frontends import (  # noqa: F401  (fill the tables of what can be traced)
    numpy_choosing,
    numpy_contractions,
    numpy_creation,
    numpy_editing,
    numpy_fft,
    numpy_gufuncs,
    numpy_indexing,
    numpy_layout,
    numpy_linalg,
    numpy_numbers,
    numpy_padding,
    numpy_places,
    numpy_ranges,
    numpy_reductions,
    numpy_scans,
    numpy_signal,
    numpy_sorting,
    numpy_statistics,
    numpy_ufuncs,
    numpy_writes,
    scipy_special,
)
from eqfuse.frontends.accepted import plain_array
from eqfuse.frontends.numpy_random import GENERATORS, Draw, TracedGenerator
from eqfuse.frontends.selection import Selection
from eqfuse.frontends.stand_ins import stand_ins
from eqfuse.ir import Fed, Graph, Node, TensorType, const, input_node, topological
from eqfuse.number import Number
from eqfuse.outside import Outside, leaving_alone
from eqfuse.pytree import LEAF, SCALAR, Static, Structure, flatten, paths, unflatten
from eqfuse.strides import Strides, strides_of
from eqfuse.symbolic import SymbolicSpec, symbolic_shape
from eqfuse.tracer import Tracer, argument
from eqfuse.tracing import Trace


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
    found = tensor_dtype(dtype, "the spec")
    numbers = tuple(n for n in extents if isinstance(n, int))
    if any(n < 0 for n in numbers):
        raise ShapeError(f"the spec has shape {extents}: an extent is 0 or more")
    return Spec(TensorType(found, numbers)) if len(numbers) == len(extents) else SymbolicSpec(extents, found)


@dataclass(frozen=True)
class CallSignature:
    """How the traced function's arguments and results nest. `arguments` is the structure of (args, kwargs)."""

    parameters: inspect.Signature | None
    static: frozenset[str]
    arguments: Structure
    results: Structure
    sources: tuple[int, ...]  # where each result is, among the graph's outputs and behind these the numbers' values
    written: tuple[int, ...]  # inputs changed in place: the graph's last outputs are what they become
    layouts: tuple[tuple[int, Strides], ...]  # inputs whose layout in memory decides what the function does: their own
    draws: tuple[Draw, ...]  # random numbers that a call draws, in this order: inputs after those of the arguments
    apart: tuple[int, ...]  # leaves of the arguments that are no inputs: random generators and Python numbers
    arithmetic: Arithmetic  # what a call computes with its Python numbers; some of it are the graph's last inputs

    def flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> list[Any]:
        """The leaves of the arguments. ShapeError when they nest otherwise than when traced."""
        (given, named), _ = split_static(self.parameters, self.static, args, kwargs or {})
        leaves, structure = flatten((given, named))
        if structure != self.arguments:
            raise ShapeError(
                f"the arguments nest differently than when the program was traced: {_described(structure)} instead of "
                f"{_described(self.arguments)}; compile the function for these arguments, or call it through ef.jit"
            )
        return leaves

    @cached_property
    def pure(self) -> bool:
        """Does a call neither change its arguments, nor ask how they lie in memory, nor draw random numbers?"""
        return not (self.written or self.layouts or self.draws or self.apart or self.arithmetic.steps)

    def feed(self, leaves: Sequence[Any]) -> Fed:
        """What a call's `leaves` give the graph, random numbers drawn now. ShapeError for one that cannot change."""
        arrays = [leaf for i, leaf in enumerate(leaves) if i not in self.apart]
        for i, strides in self.layouts:
            if strides_of(arrays[i]) != strides:
                raise ShapeError(_other_layout(arrays[i], strides))
        for i in self.written:
            if isinstance(arrays[i], np.ndarray) and not arrays[i].flags.writeable:
                raise ShapeError(
                    f"the function changes the argument {self._name(i)} in place, which is read-only: pass a copy of it"
                )
        if self.written and len(arrays) > 1:
            self._lie_apart(arrays)
        drawn = [draw.now(leaves) for draw in self.draws]
        numbers = self.arithmetic.values(leaves, drawn)
        arrays += [array for i, array in enumerate(drawn) if i not in self.arithmetic.drawn]
        return Fed(arrays + [numbers[place] for place in self.arithmetic.inputs], numbers)

    def _lie_apart(self, arrays: Sequence[Any]) -> None:
        """ShapeError where an argument that is changed in place shares memory with another."""
        for pair in _sharing(arrays):
            written, other = sorted(pair, key=lambda i: i not in self.written)
            if written in self.written:
                raise ShapeError(
                    f"the function changes the argument {self._name(written)} in place, whose memory another argument "
                    f"shares: {self._name(other)}. Pass a copy of one of them"
                )

    def _name(self, place: int) -> str:
        """The argument that is the array at `place`, as the function's author would write it."""
        names = input_names(self.parameters, self.arguments)
        return repr([name for i, name in enumerate(names) if i not in self.apart][place])

    def select(self, fed: Fed, outputs: Sequence[Any]) -> list[Any]:
        """The results, as they follow each other in their structure."""
        found = [*outputs, *fed.numbers]
        return [found[i] for i in self.sources]

    def settle(self, fed: Fed, outputs: Sequence[Any]) -> list[Any]:
        """The results, after the arrays are changed as the function changes them. Such an array may be a result."""
        final = list(outputs)
        for i, place in zip(self.written, range(len(final) - len(self.written), len(final)), strict=True):
            array = fed.arrays[i]
            fetched = hasattr(final[place], "get") and not hasattr(array, "get")  # CuPy's arrays, when asked to
            array[...] = final[place].get() if fetched else final[place]
            final[place] = array
        return self.select(fed, final)

    def rebuild(self, results: Sequence[Any]) -> Any:
        """What the function returns, around `results`."""
        return unflatten(self.results, results)


def _other_layout(array: Any, strides: Strides) -> str:
    wanted = "in C order" if strides is None else f"with strides {strides}"
    return (
        "what the function does depends on how an argument lies in memory: it was traced for one "
        f"{wanted}, this one has strides {array.strides}. Pass a copy of it (np.ascontiguousarray(x)), compile for an "
        "example that lies so, or call the function through ef.jit, which does"
    )


def _sharing(arrays: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """The pairs of arrays that share memory, by their places."""
    bounds = sorted((*_bounds(a), i) for i, a in enumerate(arrays) if _lies_somewhere(a))
    before: list[tuple[int, int]] = []  # where an array ends, and which it is
    for start, stop, i in bounds:
        before = [(end, j) for end, j in before if end > start]
        for _, j in before:
            if _overlap(arrays[i], arrays[j]):
                yield i, j
        before.append((stop, i))


def _lies_somewhere(array: Any) -> bool:
    return isinstance(array, np.ndarray) or hasattr(getattr(array, "data", None), "ptr")


def _bounds(array: Any) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one behind its last, here or on a GPU."""
    if isinstance(array, np.ndarray):
        return byte_bounds(array)
    reach = [(n - 1) * step if array.size else 0 for n, step in zip(array.shape, array.strides, strict=True)]
    start = array.data.ptr
    end = start + sum(r for r in reach if r > 0) + (array.dtype.itemsize if array.size else 0)
    return start + sum(r for r in reach if r < 0), end


def _overlap(a: Any, b: Any) -> bool:
    """Do two arrays share memory? Where that is too hard to tell: yes."""
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return True  # on a GPU, where their bounds overlap
    try:
        return np.shares_memory(a, b, max_work=1000)  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _described(structure: Structure) -> str:
    given, named = structure.children
    return f"{len(given.children) + len(named.children)} arguments with {len(paths(structure))} arrays"


def parameters_of(fn: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of `fn`, or None for a builtin that does not tell."""
    try:
        return inspect.signature(fn)
    except (ValueError, TypeError):
        return None


def split_static(
    parameters: inspect.Signature | None, static: Iterable[str], args: tuple, kwargs: dict[str, Any]
) -> tuple[tuple[tuple, dict[str, Any]], dict[str, Any]]:
    """The dynamic (args, kwargs) in one normal form, and the static arguments by name.

    In the normal form every argument that can be positional is, unless a static or an omitted one stands before it.
    """
    if not kwargs and not static:
        return (args, kwargs), {}
    if parameters is None:
        raise TraceError("this builtin does not tell its parameters: pass its arguments by position")
    try:
        bound = parameters.bind(*args, **kwargs)
    except TypeError as error:
        raise TraceError(f"the arguments do not fit the traced function: {error}") from None
    fixed = {name: bound.arguments.pop(name) for name in static if name in bound.arguments}
    return (bound.args, bound.kwargs), fixed


def trace(
    fn: Callable[..., Any], *example_args: Any, static_argnames: str | Iterable[str] = (), **example_kwargs: Any
) -> Graph:
    """The graph of `fn` for arguments like the examples (arrays, Python scalars, `spec`s, containers of these).

    Arguments named in `static_argnames` are used as they are: their values become part of the graph.
    """
    names = static_names(static_argnames)
    parameters = parameters_of(fn)
    are_parameters(names, parameters)
    (args, kwargs), fixed = split_static(parameters, names, example_args, example_kwargs)
    leaves, structure = flatten((args, kwargs))
    classes = {kind.__name__: kind for kind in _classes(structure)}
    roots = {getattr(fn, "__name__", "the function"): fn, **fixed, **classes}

    def attempt(outside: Outside) -> tuple[Graph, Trace]:
        with Trace() as run:
            with stand_ins(outside.reached):
                graph = _traced(run, fn, parameters, names, leaves, structure, fixed)
            outside.settle()
        return graph, run

    return leaving_alone(roots, attempt)


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
    result = _call(fn, parameters, traced_args, traced_kwargs, fixed)
    _refuse_changed_containers(structure, stands, (traced_args, traced_kwargs))
    outputs, results = flatten(result)
    written = tuple(sorted(run.written))
    nodes, sources, results = _outputs(outputs, results, written)
    own = [t for t in stands if isinstance(t, Tracer)]
    _refuse_reshaped(inputs, own)
    nodes += [own[i].node for i in written]
    relied = tuple((i, layouts[i]) for i in sorted(run.layouts))
    draws = tuple(draw for _, draw in run.draws)
    arithmetic, entered = run.numbers.finished(set(topological(nodes)))
    signature = CallSignature(
        parameters, names, structure, results, sources, written, relied, draws, tuple(apart), arithmetic
    )
    return Graph((*inputs, *(n for n, _ in run.draws if n is not None), *entered), tuple(nodes), signature)


def is_apart(leaf: Any) -> bool:
    """Is this leaf of the arguments no input of the graph?"""
    return type(leaf) in KINDS or isinstance(leaf, GENERATORS)


def _stand_in(run: Trace, leaf: Any, place: int, name: str) -> TracedGenerator | Number:
    """What stands for an argument that is no array."""
    if isinstance(leaf, GENERATORS):
        return TracedGenerator(place, leaf)
    return Number(run.numbers.given("argument", (place, name), leaf))


def _refuse_changed_containers(structure: Structure, stands: list[Any], arguments: tuple) -> None:
    leaves, now = flatten(arguments)
    if now != structure or any(a is not b for a, b in zip(leaves, stands, strict=True)):
        raise TraceError(
            "the function changes a container among its arguments (an item, a field, its length): the caller's would "
            "stay as it is. Return what is new, or write into the arrays themselves: d['x'][...] = value"
        )


def _refuse_reshaped(inputs: list[Node], stands: list[Tracer]) -> None:
    for n, t in zip(inputs, stands, strict=True):
        if t.shape != n.shape:
            raise TraceError(
                f"the function assigns to the shape of the argument {n.attrs[0]!r}: the caller's array would keep its "
                "own. Write x = x.reshape(...)"
            )


def _classes(structure: Structure) -> Iterable[type]:
    """The classes among the containers: their methods may run while the function is traced."""
    if isinstance(structure.kind, type):
        yield structure.kind
    for child in structure.children:
        yield from _classes(child)


def static_names(given: str | Iterable[str]) -> frozenset[str]:
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else (given,)
    if not all(isinstance(name, str) for name in names):
        raise OptionError(f"static_argnames is {given!r}: give the name of a parameter, or a tuple of names")
    return frozenset(names)


def are_parameters(names: frozenset[str], parameters: inspect.Signature | None) -> None:
    """Refuse a static argument that is no parameter of the function."""
    unknown = names - set(parameters.parameters if parameters is not None else ())
    if unknown:
        raise TraceError(f"static_argnames: the function has no parameter {', '.join(map(repr, sorted(unknown)))}")


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
        array = plain_array(leaf, f"the argument {name!r}")
        return TensorType(array.dtype, array.shape)
    if type(leaf).__module__.split(".")[0] == "cupy":
        return TensorType(supported(leaf.dtype, f"the argument {name!r}"), leaf.shape)
    if isinstance(leaf, SymbolicSpec):
        raise TraceError(
            f"the argument {name!r} is {leaf}: a graph holds numbers for its extents. ef.compile takes symbols"
        )
    kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}".removeprefix("builtins.")
    if isinstance(leaf, numbers.Number):
        plain = next((k.__name__ for k in KINDS if isinstance(leaf, k)), "float")
        raise TraceError(
            f"the argument {name!r} is a {kind}, a number with a class of its own: pass {plain}({name}), or name it in "
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
    return strides_of(leaf) if not isinstance(leaf, Tracer) and hasattr(leaf, "strides") else None


def input_names(parameters: inspect.Signature | None, structure: Structure) -> list[str]:
    """A distinct name per leaf, as the user would write it: ``x``, ``params['w']``."""
    given, named = structure.children
    names = list(parameters.parameters.values()) if parameters is not None else []
    found: list[str] = []
    for i, child in enumerate(given.children):
        if i < len(names) and names[i].kind in (names[i].POSITIONAL_ONLY, names[i].POSITIONAL_OR_KEYWORD):
            found += paths(child, names[i].name)
        else:
            found += paths(child, f"args[{i}]")
    for key, child in zip(named.keys, named.children, strict=True):
        found += paths(child, str(key))
    return found


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
        return Structure(s.kind, s.keys, tuple(children))
    leaf = next(rest)
    if type(leaf) in KINDS:
        return Structure(Static, (leaf,))
    if isinstance(leaf, Number):
        sources.append((2, leaf.place))
        return LEAF
    if isinstance(leaf, Tracer) and leaf.argument in written:
        sources.append((1, written.index(leaf.argument)))
        return LEAF
    sources.append((0, len(nodes)))
    if isinstance(leaf, Tracer):
        nodes.append(leaf.node)
        return SCALAR if leaf.scalar else LEAF
    if isinstance(leaf, (np.ndarray, np.generic)):
        nodes.append(const(plain_array(leaf, "a result")))
        return SCALAR if isinstance(leaf, np.generic) else LEAF
    if isinstance(leaf, Selection):
        raise leaf.no_result
    kind = f"{type(leaf).__module__}.{type(leaf).__qualname__}"
    raise TraceError(f"the function returns a {kind}, not an array, a number, or a container of these")
