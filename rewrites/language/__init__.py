"""What laws are written in: terms, guards, and the law itself."""

from eqfuse.rewrites.language import notation  # noqa: F401  (fills the tables of `numpy_calls`, which terms look into)
