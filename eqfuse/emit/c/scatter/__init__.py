"""Values joined to the elements that indices name, as loops in C."""
