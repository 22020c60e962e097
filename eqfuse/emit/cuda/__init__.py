"""The CUDA target: kernels as readable CUDA text, and library calls of CuPy."""
