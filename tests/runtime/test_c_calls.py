"""Python's functions that are C text stay whole, however they are dropped."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.c_kernels import needs_compiler

pytestmark = needs_compiler
COLLECTED = """
import gc
from eqfuse.machine import c_calls
from eqfuse.machine.c_objects import loaded_library

text = "void *f(void *self, void *const *arguments, __PTRDIFF_TYPE__ count) { return eqf_true(self); }"
library = loaded_library(c_calls.TEXT + text)
for _ in range(300):
    f = c_calls.library_functions(library, ["f"])["f"]
    assert f()
    ring = [f]
    ring.append(ring)
    del f, ring
gc.collect()
"""


def test_functions_that_the_garbage_collector_drops_read_no_memory_that_it_has_freed() -> None:
    """The C library overwrites what is freed so that Python would take a function for one of a class."""
    filled = os.environ | {"PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "2"}
    done = subprocess.run([sys.executable, "-c", COLLECTED], env=filled, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
