"""Windows that slide over images, in C: pooling, with the work before and after it in the same kernel."""
