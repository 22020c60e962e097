"""Declarations that were read, kept for the next segment that needs about the same.

In: the texts that an `engine` will need. Out: `Declarations` that have read them, marked. What came since the mark is
taken back when the engine is gone, so that nothing of a program stays; what does stay is a few e-graphs without nodes,
for each thread, as egglog's cannot be passed to another. What a program finds does not depend on what its e-graph has
read for others: only rules of its own are run, in an order of its own.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Sequence

from eqfuse.egraph.callbacks import Callbacks
from eqfuse.egraph.declarations import Declarations, Texts

TEXTS_READ = 1500  # texts that the e-graphs of a thread have read in all
_TEXTS = 120  # that one has read which is lent for a program of few, and half more than what one of many needs
_NUMBERS = 20_000  # of Python objects: egglog keeps each that it has met
_HOLDING = 0.1  # what it costs to mark and take back for each text read, in units of what it costs to read one
_BEGINNING = 4  # what an e-graph costs before the first text

_local = threading.local()
_lent: weakref.WeakSet[Declarations] = weakref.WeakSet()  # all there are
_threads_gone = False  # of egglog: it waits for them when it drops an e-graph, and a forked process does not have them


class Pool:
    """The declarations of one thread."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.kept: list[Declarations] = []  # the last used last
        self.returned: list[Declarations] = []  # by other threads: with what was done since the mark

    def lend(self, texts: Sequence[Texts]) -> Declarations:
        """Declarations that have read `texts`, and are marked."""
        while self.returned:
            self.keep(self.returned.pop())
        keys = {each[0] for each in texts}

        def cost(declarations: Declarations) -> float:
            missing = len(keys - declarations.read.keys())
            return missing + _HOLDING * (len(declarations.read) + missing)

        most = max(_TEXTS, len(keys) + len(keys) // 2)
        fitting = [d for d in self.kept if len(d.read.keys() | keys) <= most]
        lent = min(fitting, key=cost, default=None)
        if lent is None or cost(lent) > _BEGINNING + (1 + _HOLDING) * len(keys):
            lent = Declarations()
        else:
            self.kept.remove(lent)
        for each in texts:
            lent.require(*each)
        lent.mark()
        return lent

    def keep(self, declarations: Declarations) -> None:
        """Take back `declarations`. Those that were used longest ago go, if there is too much."""
        declarations.back()
        self.kept.append(declarations)
        while sum(len(each.read) for each in self.kept) > TEXTS_READ:
            del self.kept[0]


def lend(texts: Sequence[Texts]) -> Declarations:
    """Declarations that have read `texts`, and are marked; `give_back` is called when they are no longer needed."""
    lent = _pool().lend(texts)
    _lent.add(lent)
    if _threads_gone:
        _never_drop(lent)
    return lent


def give_back(declarations: Declarations, home: weakref.ref[Pool], callbacks: Callbacks) -> None:
    """Keep `declarations` for the next, unless too much was done with them."""
    pool = home()
    if _threads_gone or pool is None or not declarations.sound or callbacks.numbers > _NUMBERS:
        return
    if pool.thread == threading.get_ident():
        pool.keep(declarations)
    else:
        pool.returned.append(declarations)


def home() -> weakref.ref[Pool]:
    """The pool of this thread."""
    return weakref.ref(_pool())


def _pool() -> Pool:
    pool = getattr(_local, "pool", None)
    if pool is None:
        pool = _local.pool = Pool()
    return pool


def _never_drop(declarations: Declarations) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(declarations.egraph))


def _forked() -> None:
    """Leave the e-graphs of the process that this one was forked from alone: none is used, none is dropped."""
    global _threads_gone
    _threads_gone = "egglog.bindings" in sys.modules
    for declarations in list(_lent):
        _never_drop(declarations)
    vars(_local).clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
