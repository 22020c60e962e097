"""Saturation: laws fill the e-graph with equal programs. In: a graph and laws. Out: `Space`. Next stop: `extract`."""
