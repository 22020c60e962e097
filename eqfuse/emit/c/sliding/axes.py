"""How windows slide along one axis of an image: which indices those of a block of results hold.

In: extents, strides, padding and dilations of an operator. Out: `Axis`. Next stop: `parts.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Axis:
    """`extent` of the image, `places` of windows along it, `window` elements of each, `before` the first element so
    many of padding."""

    extent: int
    places: int
    window: int = 1
    stride: int = 1
    before: int = 0
    dilation: int = 1

    @property
    def reach(self) -> int:
        return (self.window - 1) * self.dilation + 1

    @property
    def is_padded(self) -> bool:
        """Does any window hold what is no element?"""
        return self.before > 0 or (self.places - 1) * self.stride + self.reach - self.before > self.extent

    def read_by(self, places: int) -> int:
        """Indices under so many windows, with those between them and the padding."""
        return (places - 1) * self.stride + self.reach

    def all_read(self, block: int) -> int:
        """Elements under the windows of each block of so many, all blocks together."""
        total = 0
        for first in range(0, self.places, max(1, block)):
            begin = first * self.stride - self.before
            end = begin + self.read_by(min(block, self.places - first))
            total += max(0, min(end, self.extent) - max(begin, 0))
        return total
