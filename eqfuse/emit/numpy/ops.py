"""NumPy statements: text that computes a node into a named array, by the rows of `emit/numpy/table.py`.

In: a node and the names of its operands and result. Out: lines of Python, and the functions they call (`NAMES`).
Users' names and constants never reach this text: operands are names that the emitter has made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqfuse.emit.numpy.erf import erf as fast_erf
from eqfuse.emit.numpy.table import INSIDE, NUMBERS, NUMPY_VIEWS, NumpyRow
from eqfuse.emit.numpy.transpose_copy import block_count, copy_transposed
from eqfuse.emit.numpy.where import choose_between
from eqfuse.errors import UnsupportedOp
from eqfuse.ir.graph import Node
from eqfuse.ir.views import leaf_chain, strides_after
from eqfuse.ops import TABLE
from eqfuse.ops.types import Shape
from eqfuse.ops.updates import uncovered

# the ufunc that a reduction repeats, and that joins two partial results
JOINS = {name: op.joined_by for name, op in TABLE.items() if op.joined_by is not None}

LAID_OVER = ("slice_scatter", "pad")  # written piece by piece
WINDOWED = tuple(op for op, r in INSIDE.items() if r.by_meaning)  # small ones run by their meaning
ONE_RUN = frozenset(op for op, r in INSIDE.items() if r.one_run)

NAMES: dict[str, Any] = {
    "fast_erf": fast_erf, "choose": choose_between, "copy_transposed": copy_transposed, "blocks_of": block_count,
    "clip": np._core.umath.clip, "einsum": np._core.multiarray.c_einsum,  # type: ignore[attr-defined]
    "vecdot": np.vecdot, "dot": np.dot, "copyto": np.copyto, "empty": np.empty,
    "ascontiguousarray": np.ascontiguousarray, "divmod": divmod, "min": min,
    "slice": slice, "range": range, "iter": iter, "every": slice(None),
}  # fmt: skip
for _row in (*NUMPY_VIEWS.values(), *INSIDE.values()):
    NAMES |= _row.names

FEW_FACTORS = 128  # elements of a right operand that are copied in half a microsecond
FOR_EACH_FACTOR = 60  # elements of a product for each of these, from which on the copy is the shorter way
CHOOSE_FROM = 2048  # elements; below, a masked copy is faster than looking at the condition first


def into(n: Node, args: Sequence[str], out: str, axes: tuple[int, ...] = ()) -> str:
    """The statement that computes `n` of `args` into the array `out`. `axes`: those reduced, from the left."""
    if n.op == "minimum" and len(args) == 3:
        return f"clip({', '.join(args)}, {out})"
    return filled_template(n, _row_of(n).into, args, out=out, axes=axes)


def filled_template(n: Node, template: str | None, args: Sequence[str], **names: object) -> str:
    """`template`, of the row of `n`, with the names of its arguments and its attributes; `names` go before those."""
    if template is None:
        raise UnsupportedOp(f"the NumPy table (eqfuse/emit/numpy/table.py) has no such statement for {n.op!r}")
    attrs = dict(zip(n.row.attrs, n.attrs, strict=True))
    return template.format(*args, all=", ".join(args), **(attrs | names))


def _row_of(n: Node) -> NumpyRow:
    try:
        return INSIDE[n.op]
    except KeyError:
        raise UnsupportedOp(f"the NumPy table (eqfuse/emit/numpy/table.py) has no {n.op!r} inside a kernel") from None


def whole_product(n: Node, args: Sequence[str], out: str) -> str:
    """The product of whole arrays into `out`, which has no gaps. For two matrices ``dot`` takes half the time to call
    BLAS, and calls it for operands of any strides; but one element it takes for a factor, and 0 * NaN to be 0. A stack
    times one matrix is one product: ``matmul`` would read that matrix for each of the stack.
    """
    left, right = args
    if not is_by_dot(n):
        return f"matmul({left}, {right}, {out})"
    if len(n.args[0].shape) > 2:
        left, out = f"{left}.reshape({folded(n.args[0])})", f"{out}.reshape({folded(n)})"
    if len(n.args[1].shape) > 2:
        right = f"{right}.reshape({folded(n.args[1])})"
    if right_is_copied(n):
        right = f"{right}.copy()"
    return f"dot({left}, {right}, {out})"


def right_is_copied(n: Node) -> bool:
    """Does the product `n` of whole arrays copy its right operand? One that is small and transposed, beside a long left
    one: OpenBLAS takes up to three times as long as where it lies by rows."""
    left, right = n.args
    small = right.type.size <= FEW_FACTORS and n.type.size >= FOR_EACH_FACTOR * right.type.size
    is_copied = small and n.dtype.kind == "f" and _lies_by_columns(right) and not _lies_by_columns(left)
    return is_copied and is_by_dot(n)


def _lies_by_columns(matrix: Node) -> bool:
    leaf, chain = leaf_chain(matrix)
    strides = strides_after(leaf.type, chain)
    return strides is not None and strides[-1] > 1


def is_by_dot(n: Node) -> bool:
    """Does ``dot`` multiply the whole arrays of `n`: two matrices of a dtype of BLAS, the leading axes of the left one
    taken as rows?

    (A matrix of one element is none: ``dot`` scales the other by it, and takes 0 * NaN to be 0.)
    """
    of_matrices = math.prod(n.args[1].shape[:-2]) == 1 and n.shape[:-1] == n.args[0].shape[:-1]
    return n.dtype.char in "fdFD" and of_matrices and n.type.size > 0 and all(a.type.size > 1 for a in n.args)


def folded(n: Node) -> Shape:
    """The shape of `n` as one matrix."""
    return (math.prod(n.shape[:-1]), n.shape[-1])


def fresh(n: Node, args: Sequence[str], name: str, dtype: str) -> str:
    """The statement that computes `n` of `args` into a new array `name`; `dtype` names the result's dtype."""
    if n.op == "minimum" and len(args) == 3:
        return f"{name} = clip({', '.join(args)})"
    return f"{name} = {filled_template(n, _row_of(n).new, args, dtype=dtype)}"


def scalar_expression(n: Node, args: Sequence[str]) -> str:
    """The expression that computes the number `n` of numbers."""
    return NUMBERS[n.op].format(*args)


def masked_copy(args: Sequence[str], out: str) -> list[str]:
    """``where`` into `out`, which may be the third operand but not the second."""
    condition, yes, no = args
    lines = [] if out == no else [f"copyto({out}, {no})"]
    return [*lines, f"copyto({out}, {yes}, where={condition})"]


def replaced_slices(n: Node, args: Sequence[str]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Where to copy what of an array with slices replaced, or of a padded one: first what no value covers, then the
    values."""
    *over, ground = n.pieces
    over.reverse()
    base, is_number = args[ground.argument], n.args[ground.argument].shape != n.shape
    kept = [index_text(ranges) for ranges in uncovered(n.shape, tuple([p.ranges for p in over]))]
    values = [(index_text(p.ranges) or "[...]", args[p.argument]) for p in over]
    return [(index, base if is_number else f"{base}{index}") for index in kept], values


def replaced_calls(n: Node) -> int:
    """How many copies `replaced_slices` are."""
    *over, _ = n.pieces
    over.reverse()
    return len(uncovered(n.shape, tuple([p.ranges for p in over]))) + len(over)


def view_text(name: str, chain: Sequence[Node], number: bool = False) -> str:
    """The expression that takes the views of `chain`, one behind another, of the array `name`: an array, or the
    `number` in one without axes."""
    position = 0
    while position < len(chain):
        picked = _picked(chain[position : position + 2])
        if picked is not None:
            is_number = number and position + 2 == len(chain)
            name += f"[{picked}]" if is_number or chain[position + 1].shape else f"[{picked}, ...]"
            if is_number:
                return name
            position += 2
            continue
        view = chain[position]
        ranges = index_text(view.attr("ranges")) if view.op == "slice" else ""
        name = filled_template(view, NUMPY_VIEWS[view.op].new, [name], ranges=ranges)
        position += 1
    return f"{name}[()]" if number else name


def _picked(views: Sequence[Node]) -> str | None:
    """The index that takes a slice and drops axes of extent 1 of it, if that is what `views` do: one step for two."""
    if [v.op for v in views] != ["slice", "reshape"] or not views[0].shape:
        return None
    ranges, left = views[0].attr("ranges"), [*views[1].shape]
    texts = []
    for start, stop, step in ranges:
        extent = len(range(start, stop, step))
        if left[:1] == [extent]:
            del left[0]
            texts.append(_range_text(start, stop, step))
        elif extent == 1:
            texts.append(str(start))
        else:
            return None
    return None if left else ", ".join(texts)


def index_text(ranges: Sequence[tuple[int, int, int]]) -> str:
    return f"[{', '.join([_range_text(*each) for each in ranges])}]" if ranges else ""


def _range_text(start: int, stop: int, step: int) -> str:
    return f"{start}:{stop}" + (f":{step}" if step != 1 else "")
