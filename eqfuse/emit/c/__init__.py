"""The C target: kernels as header-free C11 text."""
