"""Import, export and copy of items."""
