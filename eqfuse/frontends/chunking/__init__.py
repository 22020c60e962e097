"""Large values that are never held whole: loops over blocks of rows."""
