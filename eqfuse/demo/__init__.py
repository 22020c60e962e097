"""`eqfuse demo`: real programs, compared three ways."""
