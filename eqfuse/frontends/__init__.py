"""Front-ends: functions of array libraries, and ONNX models, in operators of the table. Next stop: `ir/graph.py`."""
