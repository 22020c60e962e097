"""What people read: explanations, drawings, the law book as a table, the debug levels, the demo."""
