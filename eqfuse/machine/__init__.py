"""The machine below: files, threads, a GPU, NVRTC, the garbage collector."""
