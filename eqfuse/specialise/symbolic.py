"""Symbolic sizes: arguments some of whose extents have names, and the sizes these names take in a call.

In: what `ef.spec(("n", 64), dtype)` and `ef.jit(dynamic=…)` say. Out: a `Pattern` that reads the sizes off a call and
gives the types at other sizes. Graphs, plans and kernels hold plain integers: `family` plans for a range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eqfuse.errors import ShapeError
from eqfuse.ir.symbolic import SymbolicSpec, symbolic_shape
from eqfuse.ops.types import Shape, TensorType

Sizes = tuple[int, ...]  # one per symbol of a pattern
LETTERS = "nmklpqrst"


class Pattern:
    """The arguments of a call, flat: a `SymbolicSpec` per array, None for a number. `names` are the user's."""

    def __init__(self, names: Sequence[str], specs: Sequence[SymbolicSpec | None]) -> None:
        self.names = tuple(names)
        self.specs = tuple(specs)
        self._places: dict[str, list[tuple[int, int]]] = {}
        for leaf, spec in enumerate(specs):
            for axis, n in enumerate(spec.shape if spec is not None else ()):
                if isinstance(n, str):
                    self._places.setdefault(n, []).append((leaf, axis))
        self._first = [places[0] for places in self._places.values()]

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(self._places)

    @property
    def fixed(self) -> set[int]:
        """The extents that are numbers."""
        return {n for spec in self.specs if spec is not None for n in spec.shape if isinstance(n, int)}

    def __str__(self) -> str:
        return ", ".join(f"{s} = {' = '.join(map(self._place, places))}" for s, places in self._places.items())

    def _place(self, place: tuple[int, int]) -> str:
        return f"{self.names[place[0]]}.shape[{place[1]}]"

    def said(self, sizes: Sizes) -> str:
        """``n = 3, m = 4``."""
        return ", ".join(f"{s} = {size}" for s, size in zip(self._places, sizes, strict=True))

    def types_at(self, sizes: Sizes) -> list[TensorType | None]:
        """The types of the arrays where the symbols have these sizes."""
        named = dict(zip(self._places, sizes, strict=True))
        return [None if spec is None else spec.type_at(named) for spec in self.specs]

    def sizes(self, shapes: Sequence[Shape | None]) -> Sizes:
        """The sizes of the symbols in a call with arrays of `shapes`; ShapeError says what does not fit the pattern."""
        why = self.misfit(shapes)
        if why is not None:
            raise ShapeError(why)
        return tuple([shapes[leaf][axis] for leaf, axis in self._first])  # type: ignore[index]

    def misfit(self, shapes: Sequence[Shape | None]) -> str | None:
        """Why arrays of `shapes` are not arguments of this pattern, or None."""
        for name, spec, shape in zip(self.names, self.specs, shapes, strict=True):
            if spec is None or shape is None:
                continue
            if len(shape) != len(spec.shape):
                return f"the argument {name!r} has shape {shape}, the program takes {spec}: its rank differs"
            for axis, (wanted, n) in enumerate(zip(spec.shape, shape, strict=True)):
                if isinstance(wanted, int) and n != wanted:
                    return f"the argument {name!r} has extent {n} along axis {axis}, the program takes {spec}"
        for symbol, places in self._places.items():
            first, size = places[0], shapes[places[0][0]][places[0][1]]  # type: ignore[index]
            for leaf, axis in places[1:]:
                if shapes[leaf][axis] != size:  # type: ignore[index]
                    return (
                        f"{symbol} is {size} in {self._place(first)} and {shapes[leaf][axis]} in "  # type: ignore[index]
                        f"{self._place((leaf, axis))}: one symbol is one extent"
                    )
        return None


def generalised(
    names: Sequence[str], dtypes: Sequence[np.dtype | None], seen: Sequence[Sequence[Shape | None]]
) -> Pattern:
    """The pattern of calls with arrays of the shapes `seen`: extents that changed are symbols, and those that were
    always equal share one."""
    symbols: dict[tuple[int, ...], str] = {}

    def extent(leaf: int, axis: int) -> int | str:
        column = tuple(shapes[leaf][axis] for shapes in seen)  # type: ignore[index]
        if len(set(column)) == 1:
            return column[0]
        number = len(symbols)
        return symbols.setdefault(column, LETTERS[number] if number < len(LETTERS) else f"n{number}")

    specs = []
    for leaf, (dtype, shape) in enumerate(zip(dtypes, seen[0], strict=True)):
        axes = None if dtype is None or shape is None else range(len(shape))
        specs.append(None if axes is None else SymbolicSpec(tuple(extent(leaf, a) for a in axes), dtype))  # type: ignore[arg-type]
    return Pattern(names, specs)


def declared(
    names: Sequence[str],
    dtypes: Sequence[np.dtype | None],
    shapes: Sequence[Shape | None],
    dynamic: Mapping[str, Sequence[int | str | None]],
) -> Pattern:
    """The pattern that `dynamic` declares by argument, for a call with `shapes`: other extents stay as they are."""
    unknown = [name for name in dynamic if name not in names]
    if unknown:
        raise ShapeError(
            f"dynamic names {unknown[0]!r}; the arrays among the arguments are {', '.join(map(repr, names))}"
        )
    specs: list[SymbolicSpec | None] = []
    for name, dtype, shape in zip(names, dtypes, shapes, strict=True):
        if dtype is None or shape is None:
            if name in dynamic:
                raise ShapeError(f"dynamic names {name!r}, which is a number and has no extents")
            specs.append(None)
            continue
        wanted = dynamic.get(name, shape)
        if not isinstance(wanted, (tuple, list)):
            raise ShapeError(f"dynamic says {wanted!r} of {name!r}: give a shape, as in {{{name!r}: ('n', 64)}}")
        if len(wanted) != len(shape):
            raise ShapeError(f"dynamic says {tuple(wanted)} of {name!r}, which has shape {shape}: its rank differs")
        extents = symbolic_shape([n if w is None else w for w, n in zip(wanted, shape, strict=True)])
        specs.append(SymbolicSpec(extents, dtype))
    return Pattern(names, specs)
