"""Which nodes of a torch graph are computed together by rows, and which by torch.

In: a GraphModule, and nodes that a row has refused. Out: one whose nodes are parts, GraphModules of their own, and what
torch computes between them. Views of what a part computes, or of inputs, stay views where nobody else reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eqfuse.frontends.torch.nodes import obstacle
from eqfuse.frontends.torch.table import TORCH_OPERATORS

PREFIX = "eqfuse_part_"


def partition(module: Any, refused: Mapping[str, str]) -> tuple[list[str], dict[Any, str]]:
    """Make parts of `module`'s nodes. Their names, and the operators that are left to torch, with the reasons."""
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import create_op_support

    _copy_views_of_results(module.graph)
    views = _last_views(module.graph)
    reasons = {n: refused.get(n.name) or obstacle(n) for n in module.graph.nodes if n not in views}
    support = create_op_support(lambda _, n: n in reasons and reasons[n] is None)
    partitioner = CapabilityBasedPartitioner(module, support, allows_single_node_partition=True)
    parts = [part for part in partitioner.propose_partitions() if any(map(_computes, part.nodes))]
    before = {name for name, _ in module.named_children()}
    partitioner.fuse_partitions(parts, PREFIX)
    names = [name for name, _ in module.named_children() if name not in before]
    left = {n: reason for n, reason in reasons.items() if reason and n.op == "call_function" and _has_tensors(n)}
    module.recompile()
    return names, left


def _computes(node: Any) -> bool:
    import operator

    return node.target is not operator.getitem and not _is_view(node)


def _has_tensors(node: Any) -> bool:
    """Are its results tensors? Those of arithmetic on sizes are not."""
    import torch

    values = node.meta.get("val")
    return any(isinstance(v, torch.Tensor) for v in (values if isinstance(values, tuple | list) else (values,)))


def _is_view(node: Any) -> bool:
    row = TORCH_OPERATORS.get(str(node.target)) if node.op == "call_function" else None
    return row is not None and row.is_view


def _keeps_size(node: Any) -> bool:
    """Is it a view of all the elements?"""
    return _is_view(node) and not str(node.target).startswith(("aten.slice", "aten.select"))


def _copy_views_of_results(graph: Any) -> None:
    """A result that is a view for others too gets views of its own."""
    output = next(n for n in graph.nodes if n.op == "output")
    copies: dict[Any, Any] = {}

    def own(node: Any) -> Any:
        if not _keeps_size(node) or all(user is output for user in node.users):
            return node
        if node not in copies:
            base = own(node.args[0])
            with graph.inserting_before(output):
                copies[node] = graph.node_copy(node, lambda n: base if n is node.args[0] else n)
        return copies[node]

    import torch.fx

    output.args = (torch.fx.node.map_arg(output.args[0], own),)
    graph.eliminate_dead_code()


def _last_views(graph: Any) -> set[Any]:
    """Views that only results, or others of these, read."""
    last: set[Any] = set()
    for n in reversed(graph.nodes):
        if _keeps_size(n) and all(user.op == "output" or user in last for user in n.users):
            last.add(n)
    return last
