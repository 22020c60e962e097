"""Emitters: a plan in, code that runs it out. One package per target (`cost/targets.py`); `onnx` writes models."""
