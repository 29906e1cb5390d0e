"""How fast a store answers and what it takes, from a thousand to a million items, beside raw indexes and peers."""
