"""Convolutions in C: tiles of sums over the windows of images, with the work around them in the same kernel."""
