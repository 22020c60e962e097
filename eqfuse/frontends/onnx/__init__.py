"""ONNX models: each node by its row, on traced arrays."""
