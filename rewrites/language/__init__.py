"""What laws are written in: terms, guards, and the law itself."""

from eqfuse.rewrites.language import notation  # noqa: F401  (fills the tables of `calls`, which terms look into)
