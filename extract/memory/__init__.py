"""Plans within a limit of memory: schedules, and values computed again."""
