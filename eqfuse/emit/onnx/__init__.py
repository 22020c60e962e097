"""The ONNX target: a plan as a model, every kernel a local function."""
