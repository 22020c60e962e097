"""What laws are written in: terms, guards, and the law itself."""
