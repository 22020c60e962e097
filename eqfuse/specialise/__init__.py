"""Many calls of one function: which program runs for which types and sizes."""
