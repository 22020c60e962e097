"""A piece of a graph in the form in which alike pieces are equal.

In: the nodes to compute and those to stop at. Out: a `Graph` of its own, and the nodes behind its inputs. Used by
`segments`, and to save a space.
"""

from __future__ import annotations

from collections.abc import Collection

from eqfuse.ir.graph import Graph, Node, input_node


def slice_of(n: Node) -> Node:
    """What `n` is a slice of, reshaped perhaps; `n` itself if it is none."""
    base = n.args[0] if n.op == "reshape" else n
    return base.args[0] if base.op == "slice" else n


def canonical_piece(
    outputs: tuple[Node, ...], boundary: Collection[Node], sliced: bool = False
) -> tuple[Graph, tuple[Node, ...]]:
    """The piece with its inputs numbered in order of first use, and large constants turned into known inputs.

    If `sliced`, slices of what comes from elsewhere are inputs too.
    """
    new: dict[Node, Node] = {}
    inputs: list[Node] = []
    stack = list(reversed(outputs))
    while stack:
        n = stack[-1]
        if n in new:
            stack.pop()
            continue
        large = n.op == "const" and n.type.size > 1
        base = slice_of(n) if sliced else n
        is_input = n in boundary or n.op == "input"
        elsewhere = base in boundary or (base.op == "input" and not base.is_constant_leaf)
        if is_input or large or (base is not n and elsewhere):
            constant = large or (n.op == "input" and n.is_constant_leaf)
            new[n] = input_node(f"i{len(inputs)}", n.type, constant)
            inputs.append(n)
        elif missing := [a for a in n.args if a not in new]:
            stack.extend(reversed(missing))
        else:
            new[n] = n.over(new[a] for a in n.args)
    return Graph(tuple(new[i] for i in inputs), tuple(new[o] for o in outputs)), tuple(inputs)
