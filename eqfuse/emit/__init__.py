"""Emitters: a planned kernel in, code for one target out. One module per target; next stop: `eqfuse.runtime`."""
