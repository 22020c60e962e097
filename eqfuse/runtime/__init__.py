"""Programs: a plan's kernels, bound to memory and callable; kept on disk and in files."""
