"""Items in a PostgreSQL database."""
