"""What is known of the values of a body is freed with it: nothing that is kept beside them holds them."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from eqfuse.cost.device import Device
from eqfuse.cost.profiles import profile
from eqfuse.ir.graph import Graph, Node, input_node, node
from eqfuse.kinds import kind_named
from eqfuse.ops.types import TensorType
from tests.support.kernels import CPU


def bodies() -> list[tuple[str, Graph]]:
    """Of shapes that no other test has: equal nodes are one object."""
    x, row = (input_node(name, TensorType(np.dtype("f4"), shape)) for name, shape in (("x", (97, 389)), ("s", (389,))))
    scaled = node("multiply", (x, row))
    largest = node("max", (scaled,), ((-1,),))
    part = node("slice", (x,), (((0, 97, 2), (1, 389, 1)),))
    return [
        ("map", Graph((x, row), (node("exp", (scaled,)),))), ("map", Graph((x,), (node("exp", (part,)),))),
        ("reduce", Graph((x, row), (largest,))), ("row", Graph((x, row), (node("subtract", (scaled, largest)),))),
        ("library", Graph((x,), (node("sort", (x,), (-1, False)),))),
    ]  # fmt: skip


@pytest.mark.parametrize("target", [CPU, profile("h100")], ids=["numpy", "cuda"])
def test_the_values_of_a_body_are_freed_after_it_was_scheduled(target: Device) -> None:
    values: list[weakref.ref[Node]] = []
    for kind, body in bodies():
        kind_named(kind).schedule(body, target).price(target)
        values += map(weakref.ref, body.nodes)
    del body
    gc.collect()
    assert not [f"{n.op} {n.type}" for n in (value() for value in values) if n is not None]
