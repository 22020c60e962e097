"""What the machine offers: files, threads, a GPU, NVRTC, the garbage collector."""
