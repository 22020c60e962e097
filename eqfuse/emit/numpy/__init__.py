"""The NumPy target: kernels as Python functions on tiles of arrays."""
