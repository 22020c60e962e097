"""Plans within a limit of memory: timelines, and values computed again."""
