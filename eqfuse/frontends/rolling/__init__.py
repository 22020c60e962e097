"""Finds the loops in a straight-line graph: Python's `for` unrolls them while tracing."""
