"""What a convolution is charged for gathering its windows."""

from __future__ import annotations

import numpy as np

from eqfuse.cost.profiles import profile
from eqfuse.cost.roofline import work
from eqfuse.ops.types import TensorType


def gathering(groups: int) -> float:
    """Seconds of a 3×3 convolution of 32 channels by 32 filters, beside its multiplications."""
    image, weight, out = (
        TensorType(np.dtype(np.float32), shape) for shape in ((1, 32, 10, 10), (32, 32 // groups, 3, 3), (1, 32, 8, 8))
    )
    attrs = ((1, 1), ((0, 0), (0, 0)), (1, 1), groups)
    done = work("conv", attrs, out, [image, weight], profile("cpu"))
    return done.seconds - done.flops / profile("cpu").contraction_flops("float32")


def test_every_channel_is_gathered_once_however_many_groups_there_are() -> None:
    dense = 32 * 9 * 64 * profile("cpu").element_seconds("add", "float32")
    np.testing.assert_allclose([gathering(1), gathering(4), gathering(32)], dense)
