"""Tools for users' tests of CUDA without a GPU: `cudasim` runs CUDA text on the CPU, `emulated_gpu` whole programs.

(`eqfuse.machine.nvrtc` compiles the text for real.)
"""
