"""Covers: a choice of kernels for a whole segment, how it is made, and which of several is taken."""
