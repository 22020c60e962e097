"""How NumPy runs a kernel: by calls on whole arrays, in tiles on several threads, or by one library call.

In: the body of a kernel. Out: its `NumpySchedule`, one class for each template, made by `scheduling`. Next stop:
`kernels`, which writes it as text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from eqfuse.cost.device import Device
from eqfuse.cost.price import Price
from eqfuse.cost.work import Work
from eqfuse.emit.numpy.branches import Branch
from eqfuse.emit.numpy.cascades import Parts
from eqfuse.emit.numpy.cost.schedule import replaced_price, schedule_price
from eqfuse.emit.numpy.replacement import Replacement, UpdateStep
from eqfuse.emit.numpy.slide import PoolingBlocks, UnrolledBlocks
from eqfuse.emit.numpy.stage import Stage
from eqfuse.emit.numpy.tiling import Panel
from eqfuse.ir.graph import Graph, Node
from eqfuse.kinds.schedule import Schedule
from eqfuse.ops.types import Shape
from eqfuse.ops.updates import Ranges


@dataclass(frozen=True, eq=False)
class NumpySchedule(Schedule):
    """`body` is computed in `tiles`, each of extents `tile` at most, which up to `threads` threads share.

    `calls_once`: NumPy calls before the first tile and after the last. `alive`: arrays of a tile needed at once.
    `gaps`: bytes that memory moves beside those that are read, as they lie between them in a cache line.
    """

    body: Graph
    threads: int = 1
    tiles: int = 1
    tile: Shape = ()
    calls_per_tile: int = 0
    calls_once: int = 0
    alive: int = 0
    gaps: int = 0

    @property
    def copied(self) -> Collection[Node]:
        """Pieces of joined arrays, which tiles copy together."""
        return ()

    @property
    def gathered(self) -> Collection[Node]:
        """Arrays with gaps between neighbours, of which tiles copy their parts, as several operators read them."""
        return ()

    @property
    def tiled_body(self) -> Graph:
        """What is computed in tiles, where there are tiles."""
        return self.body

    @property
    def after_tiles(self) -> Sequence[Node]:
        """What is computed on whole arrays after the last tile."""
        return ()

    def price(self, device: Device, work: Work | None = None) -> Price:
        return schedule_price(self, device)

    def __str__(self) -> str:
        extents, threads = "x".join(map(str, self.tile)) or "one element", min(self.threads, self.tiles)
        text = f"{self.tiles} tiles of {extents} on {threads} threads, {_count(self.calls_per_tile)} each"
        text += f", {self.alive} arrays alive" if self.alive > 1 else ""
        return text + (f"; {self.calls_once} more for all" if self.calls_once else "")


@dataclass(frozen=True, eq=False)
class WholeArrays(NumpySchedule):
    """One NumPy call after another on whole arrays, as a NumPy user would write it."""

    branches: Sequence[Branch] = ()

    def __str__(self) -> str:
        return f"whole arrays, {_count(self.calls)}{_asked_for(self.branches)}"


@dataclass(frozen=True, eq=False)
class LibraryCall(NumpySchedule):
    """One operator, which nothing is fused with; or none, and arrays are copied."""

    def __str__(self) -> str:
        return f"a library call, {_count(self.calls)}"


@dataclass(frozen=True, eq=False)
class BlockCopies(NumpySchedule):
    """Arrays are copied, some of them across the axis that they lie along: those block by block."""

    def __str__(self) -> str:
        return f"copies by {self.tiles} blocks on {min(self.threads, self.tiles)} threads"


@dataclass(frozen=True, eq=False, kw_only=True)
class OneStage(NumpySchedule):
    """All that is computed in tiles is computed by one `stage`."""

    stage: Stage

    @property
    def copied(self) -> Collection[Node]:
        return self.stage.copied

    @property
    def gathered(self) -> Collection[Node]:
        return self.stage.gathered


@dataclass(frozen=True, eq=False, kw_only=True)
class Tiles(OneStage):
    """Every operator on one tile after another."""

    def __str__(self) -> str:
        return f"{super().__str__()}{_asked_for(self.stage.branches)}"

    def with_gaps(self) -> Tiles:
        """The same where the result has gaps between its rows: it is no place to work in."""
        stage = self.stage
        return replace(self, stage=Stage(stage.body, stage.panel, stage.cut, gaps=True, branches=stage.branches))


@dataclass(frozen=True, eq=False, kw_only=True)
class TiledReduction(OneStage):
    """Reductions that leave the kernel, cut along a reduced axis into parts of `chunk` indices, each a few tiles.

    `written`: results of full size, and `joined`: the reductions, with the leaves that stand for them in the graph of
    what follows the tiles, `rest`.
    """

    chunk: int
    written: dict[Node, Node]
    joined: dict[Node, Node]
    rest: Graph

    @property
    def reductions(self) -> list[Node]:
        return list(self.joined)

    def __str__(self) -> str:
        return f"{super().__str__()}, in {self.stage.cut.count} parts that are joined"


@dataclass(frozen=True, eq=False, kw_only=True)
class ResultsOfRows(OneStage):
    """What rows are reduced to, by tiles of rows; then what is made of that, on whole arrays. `parts`: both."""

    parts: Parts

    @property
    def tiled_body(self) -> Graph:
        return self.parts.body

    @property
    def after_tiles(self) -> Sequence[Node]:
        return self.parts.rest.computations


@dataclass(frozen=True, eq=False, kw_only=True)
class CascadeOfParts(ResultsOfRows):
    """Reductions of which later ones need earlier ones, by `parts` of rows, which tiles take as rows of their own."""

    def __str__(self) -> str:
        return f"{super().__str__()}, parts of rows that are joined"


@dataclass(frozen=True, eq=False, kw_only=True)
class ReplacedSlices(NumpySchedule):
    """Values for slices of an array: those `tiled`, with their places, in tiles where they stay; then all others on
    whole arrays, one update after another. `kernel_body`: what the kernel computes; `body` computes the values."""

    kernel_body: Graph
    replacement: Replacement
    stage: Stage | None
    tiled: dict[Node, Ranges]

    @property
    def copied(self) -> Collection[Node]:
        return self.stage.copied if self.stage else ()

    @property
    def gathered(self) -> Collection[Node]:
        return self.stage.gathered if self.stage else ()

    @cached_property
    def steps(self) -> Sequence[UpdateStep]:
        return self.replacement.steps(self.tiled)

    @cached_property
    def may_lie_over_first(self) -> bool:
        return self.replacement.may_lie_over_first(self.tiled, self.stage is None)

    @property
    def tiled_body(self) -> Graph:
        return Graph(self.body.inputs, tuple(self.tiled))

    @property
    def after_tiles(self) -> Sequence[Node]:
        return [n for step in self.steps for n in step.nodes]

    @property
    def bytes_assigned(self) -> list[int]:
        """Of the slices to which values are copied."""
        assigned = [*self.replacement.unwritten, *(write for step in self.steps for write in step.assigned)]
        return [value.type.nbytes for _, value in assigned]

    def price(self, device: Device, work: Work | None = None) -> Price:
        return replaced_price(self, device)

    def __str__(self) -> str:
        tiles = super().__str__() if self.stage else f"whole arrays, {_count(self.calls)}"
        return f"{tiles}, slices replaced in place"


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockedConvolution(NumpySchedule):
    """Blocks of rows of a convolution, unrolled and multiplied. `image`: the axes of what it reads; `before`: the work
    on that, if there is some; `after`: the work on its results, whose tile is `incoming`."""

    conv: Node
    blocks: UnrolledBlocks
    image: Panel
    before: Stage | None
    after: Stage
    incoming: dict[Node, str]

    def __str__(self) -> str:
        return f"a convolution by matrix products, {super().__str__()}"


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockedWindows(NumpySchedule):
    """Blocks of a pooling. `before`, `after`, `incoming` as with a convolution; `is_stored`: the block that it reads is
    stored with padding around it."""

    window: Node
    blocks: PoolingBlocks
    before: Stage | None
    after: Stage
    incoming: dict[Node, str]
    is_stored: bool

    def __str__(self) -> str:
        return f"windows, {super().__str__()}"


def in_tiles(body: Graph, tiles: int, tile: Shape, calls: int, threads: int) -> NumpySchedule:
    """The schedule of a kind of one's own: `tiles` of extents `tile`, of `calls` NumPy calls each."""
    reads, writes = (tuple(n.type.nbytes for n in nodes) for nodes in (body.inputs, body.outputs))
    return NumpySchedule(reads, writes, calls * tiles, body, threads, tiles, tile, calls)


def _asked_for(branches: Sequence[Branch]) -> str:
    return f"; computed where a choice asks for it: {', '.join(map(str, branches))}" if branches else ""


def _count(calls: int) -> str:
    return f"{calls} call{'' if calls == 1 else 's'}"
