"""Items, hits, searches, runs and message flows as JSON forms and diagrams."""
