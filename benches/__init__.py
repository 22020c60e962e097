"""Comparative benchmarks; each checks its answers before it times anything.

In: a command line, `eqfuse bench NAME …` or `python benches/NAME.py …`. Out: tables, and JSON or plots on request.
"""
