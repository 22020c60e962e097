"""The programs of one function, at most so many: the least recently used makes room for a new one.

In: programs by key. Out: the program of a key. Looking one up takes no lock; one thread at a time keeps a new one.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from eqfuse.ir.pytree import Structure
from eqfuse.ir.strides import Strides


class CallKey(NamedTuple):
    """What a program of `ef.jit` depends on. `leaves`: (class where it matters, shape, dtype) of each one. `layouts`:
    strides of arrays, by place among the graph's inputs, where they decide what the function does."""

    structure: Structure
    leaves: tuple[tuple[Any, Any, Any], ...]
    statics: tuple[tuple[str, Hashable], ...]
    layouts: tuple[tuple[int, Strides], ...] = ()

    def without_extents(self) -> CallKey:
        """The key of all calls that differ from this one in the extents and layouts of their arrays alone."""
        leaves = ((kind, None if shape is None else len(shape), dtype) for kind, shape, dtype in self.leaves)
        return self._replace(leaves=tuple(leaves), layouts=())


def changing(keys: Sequence[CallKey], names: Sequence[str]) -> tuple[str, str]:
    """What differs most among `keys`, of which `names` are the last one's arguments; and, where it is an extent, how
    ``dynamic=`` would name it."""
    alike = [key for key in keys if key.structure == keys[-1].structure]
    differences: list[tuple[int, str, str]] = []  # how many, what, for dynamic=
    for i, name in enumerate(names):
        kinds, shapes, dtypes = zip(*(key.leaves[i] for key in alike), strict=True)
        differences.append((len({*zip(kinds, dtypes, strict=True)}), f"the dtype of {name!r}", ""))
        differences.append((len({None if s is None else len(s) for s in shapes}), f"the rank of {name!r}", ""))
        same = [s for s in shapes if s is not None and shapes[-1] is not None and len(s) == len(shapes[-1])]
        for axis, extents in enumerate(zip(*same, strict=True)):
            distinct = list(dict.fromkeys(extents))
            text = f"the extent of {name!r} along axis {axis} ({', '.join(map(str, distinct[-4:]))}, …)"
            named = ", ".join("'n'" if a == axis else "None" for a in range(len(same[0])))
            differences.append((len(distinct), text, f"{{{name!r}: ({named}{',' if len(same[0]) == 1 else ''})}}"))
    for key_name, _ in keys[-1].statics:
        values = {dict(key.statics).get(key_name) for key in alike}
        differences.append((len(values), f"the static argument {key_name!r}", ""))
    differences.append((len({key.layouts for key in alike}), "how the arrays lie in memory", ""))
    differences.append((1 + len({key.structure for key in keys}), "the nesting of the arguments", ""))
    _, what, advice = max(differences, key=lambda f: f[0])
    return what, advice


class Version:
    """A program, the structure of its results, the layouts of arrays that it relies on, and `how` it came to be."""

    __slots__ = ("program", "results", "layouts", "how", "used", "key", "flat")

    def __init__(self, program: Any, signature: Any, how: str) -> None:
        self.program = program
        self.results: Any = None if signature is None else signature.results
        self.layouts: tuple[tuple[int, Strides], ...] = () if signature is None else signature.layouts
        self.how = how
        self.used = 0
        self.key: Any = None
        self.flat: tuple | None = None  # the key of calls with arrays by position alone


class Versions:
    """At most `limit` versions by key."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self._kept: dict[Hashable, Version] = {}
        self.now = itertools.count(1).__next__  # for `Version.used`

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Version]:
        return iter(list(self._kept.values()))

    def get(self, key: Hashable) -> Version | None:
        """The version of `key`, which is now the last one used."""
        version = self._kept.get(key)
        if version is not None:
            version.used = self.now()
        return version

    def keep(self, key: Hashable, version: Version) -> Version | None:
        """Store `version`; the one that was dropped for it, if any."""
        version.key, version.used = key, self.now()
        oldest = None
        if len(self._kept) >= self.limit:
            oldest = min(self._kept.values(), key=lambda v: v.used)
            del self._kept[oldest.key]
            self.dropped += 1
        self._kept[key] = version
        return oldest
