"""A store whose items are spread over several databases, by tenant."""
