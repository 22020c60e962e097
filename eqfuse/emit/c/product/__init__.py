"""Matrix products of our own in C, in blocks, with the work before and after them in the same kernel."""
