"""Seams: where a value in a kernel body goes over from one piece of a joined array to the next, along each axis.

In: an operator about to join the bodies that compute its arguments. Out: the places of the seams along the axes of its
value. Next stop: `State`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from eqfuse.ops import Role
from eqfuse.ops.types import Shape

if TYPE_CHECKING:
    from eqfuse.kinds.state import Call

Seams = frozenset[tuple[int, int]]  # a negative axis, and the first index of a piece along it


def seams_of(call: Call) -> Seams:
    """The seams of the value of `call`."""
    if call.row.pieces is not None:
        return _joined(call)
    seams: Seams = frozenset().union(*[s.seams for s in call.states])
    return _viewed(call, seams) if seams and call.is_a(Role.VIEW) else seams


@lru_cache(maxsize=8192)  # most kernels that a search looks at have the seams of others
def pieces(space: Shape, seams: Seams) -> tuple[tuple[int, ...], ...]:
    """Along each axis of `space` the extents of its pieces."""
    extents = []
    for axis, extent in enumerate(space, -len(space)):
        places = sorted(place for a, place in seams if a == axis and 0 < place < extent)
        extents.append(tuple([end - start for start, end in zip([0, *places], [*places, extent], strict=True)]))
    return tuple(extents)


def _joined(call: Call) -> Seams:
    """Those of the pieces, and where these meet."""
    assert call.row.pieces is not None
    shape, seams = call.out.shape, set[tuple[int, int]]()
    for argument, ranges, _ in call.row.pieces(tuple([t.shape for t in call.types]), call.attrs):
        seams |= {(a, ranges[a][0] + place) for a, place in call.states[argument].seams}
        seams |= {(a, place) for a, (start, stop, _) in enumerate(ranges, -len(shape)) for place in (start, stop)}
    return frozenset([(a, place) for a, place in seams if 0 < place < shape[a]])


def _viewed(call: Call, seams: Seams) -> Seams:
    """Along each axis that the view shares with its argument: the first of its indices beyond the seam."""
    places, shape = call.index_map, call.out.shape
    if places is None:
        return frozenset()  # no kernel takes such a reshape of joined arrays
    view_seams = set()
    for a, seam in seams:
        start = places[a].start
        for axis, step in places[a].terms[:1]:
            beyond = -((start - seam) // step) if step > 0 else (start - seam) // -step + 1
            view_seams.add((axis - len(shape), beyond))
    return frozenset((a, place) for a, place in view_seams if 0 < place < shape[a])
