"""The graph of tensor operators, its text, its meaning, and the arguments that it stands for."""
