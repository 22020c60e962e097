"""Algorithms over whole programs that are no laws, and stand beside them."""
