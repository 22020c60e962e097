"""The plan: kernels in order, the memory that their values lie in, and what is reported of it."""
