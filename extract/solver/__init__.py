"""The integer program of `exact`: the kernels among which it chooses, and what solves it."""
