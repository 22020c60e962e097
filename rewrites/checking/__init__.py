"""Checks of laws: made-up cases, judgement by exactness class, the smallest counterexample, proofs by z3."""
