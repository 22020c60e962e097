"""The programs that a search starts from: as written, simplified, or of the cheapest operators."""
