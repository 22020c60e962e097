"""The parameters of a C kernel: the arrays it reads, constants, which are data and never text, and what it writes.

In: a body with views on leaves alone. Out: names of arrays and numbers, and the lines that fetch them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eqfuse.emit.c import ops
from eqfuse.ir.graph import Graph, Node
from eqfuse.ir.views import leaf_chain
from eqfuse.ops.literal import Literal
from eqfuse.ops.types import TensorType


@dataclass
class Parameters:
    """`r`: arrays read, `k`: constants, `w`: arrays written, `p`: results of parts. The C function is given them in
    this order, as NumPy's array objects; `reads` and `constants` grow as they are named. `updated`: the input in whose
    memory the result may lie, where the kernel reads its elements. `overlays`: by input, the results that may lie over
    it: one result depends on all that is read there, but of several one may be written before it is read for another.
    """

    body: Graph
    workspaces: list[TensorType]
    reads: list[Node] = field(default_factory=list)
    constants: list[Literal] = field(default_factory=list)
    updated: Node | None = None
    overlays: Mapping[Node, frozenset[int]] = field(default_factory=dict)

    def leaf(self, n: Node) -> str:
        """The array or the number that `n`, a leaf maybe behind views, is taken from."""
        leaf, _ = leaf_chain(n)
        if leaf.op == "const":
            if leaf.literal not in self.constants:
                self.constants.append(leaf.literal)
            return f"k{self.constants.index(leaf.literal)}"
        if leaf not in self.reads:
            self.reads.append(leaf)
        return f"r{self.body.inputs.index(leaf)}"

    def is_number(self, name: str) -> bool:
        return name.startswith("k") and self.constants[int(name[1:])].array.size == 1

    def read_numbers(self) -> list[int]:
        """The numbers of the inputs that are read."""
        return sorted(self.body.inputs.index(n) for n in self.reads)

    def _all(self) -> list[tuple[str, str, str]]:
        """Names, what is declared under them, and how that is fetched from memory."""
        arrays = [(f"r{i}", self.body.inputs[i].dtype, True) for i in self.read_numbers()]
        arrays += [(f"k{i}", c.array.dtype, True) for i, c in enumerate(self.constants)]
        arrays += [(f"w{j}", o.dtype, False) for j, o in enumerate(self.body.outputs)]
        arrays += [(f"p{j}", t.dtype, False) for j, t in enumerate(self.workspaces)]
        numbers = {f"k{i}": c.array.dtype for i, c in enumerate(self.constants) if c.array.size == 1}
        shared = self._shared()
        lines = []
        for name, dtype, is_read in arrays:
            stored = "const " * is_read + ops.ctype(dtype).stored
            if name in numbers:
                number = ops.value_read(dtype, f"*({stored} *){{0}}")
                lines.append((name, f"const {ops.computing_type(dtype)} {name}", number))
            else:
                lines.append((name, f"{stored} *{'restrict ' * (name not in shared)}{name}", "{0}"))
        return lines

    def _shared(self) -> set[str]:
        """The names of arrays that may lie in one place."""
        results = [f"w{j}" for j in range(len(self.body.outputs))]
        shared = {self.leaf(self.updated), *results} if self.updated is not None else set()
        for n in self.reads:
            over = self.overlays.get(n, ()) if len(results) > 1 else ()
            shared |= {self.leaf(n), *(results[j] for j in over)} if over else set()
        return shared

    def pointers(self) -> list[str]:
        """The memory of all, as the function that Python calls is given them."""
        return [f"given[{i}]->data" for i in range(len(self._all()))]

    def fetched(self) -> dict[str, str]:
        """By name, the lines that begin the others."""
        lines = enumerate(self._all())
        return {name: f"{left} = {right.format(f'arrays[{i}]')};" for i, (name, left, right) in lines}

    def names(self) -> list[str]:
        return [name for name, _, _ in self._all()]
