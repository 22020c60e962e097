"""NumPy functions on traced arrays: a call runs the function once and records a graph."""
