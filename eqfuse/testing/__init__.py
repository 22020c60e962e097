"""Tools that judge emitted kernels without a GPU: `cudasim` runs CUDA text on the CPU, `nvrtc` compiles it for real."""
