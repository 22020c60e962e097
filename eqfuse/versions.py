"""The programs of one function, at most so many: the least recently used makes room for a new one.

In: programs by key. Out: the program of a key. Looking one up takes no lock; keeping one is done by one thread at a time.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterator
from typing import Any


class Version:
    """A program, the structure of its results, and `how` it came to be (one of `CARRIED`, `PLANNED`, a reason)."""

    __slots__ = ("program", "results", "how", "used", "key", "flat")

    def __init__(self, program: Any, results: Any, how: str) -> None:
        self.program = program
        self.results = results
        self.how = how
        self.used = 0
        self.key: Hashable = None
        self.flat: tuple | None = None  # the key of calls with arrays by position alone


class Versions:
    """At most `limit` versions by key."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.dropped = 0
        self._kept: dict[Hashable, Version] = {}
        self._clock = itertools.count(1)

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Version]:
        return iter(list(self._kept.values()))

    def get(self, key: Hashable) -> Version | None:
        """The version of `key`, which is now the last one used."""
        found = self._kept.get(key)
        if found is not None:
            found.used = next(self._clock)
        return found

    def touch(self, version: Version) -> None:
        """Note that `version` was used."""
        version.used = next(self._clock)

    def keep(self, key: Hashable, version: Version) -> Version | None:
        """Store `version`; the one that was dropped for it, if any."""
        version.key = key
        self.touch(version)
        oldest = None
        if len(self._kept) >= self.limit:
            oldest = min(self._kept.values(), key=lambda v: v.used)
            del self._kept[oldest.key]
            self.dropped += 1
        self._kept[key] = version
        return oldest
