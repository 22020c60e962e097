"""Graphs of torch's operators: each node by its row, on traced arrays."""
