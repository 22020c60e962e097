"""Candidate kernels over the classes of a segment, and what they cost."""
