"""Gradients: from a function to one that computes its derivative, in the same operators."""
