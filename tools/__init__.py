"""Programs for people who work on devmem."""
