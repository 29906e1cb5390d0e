"""The parts of `CollectionSuite`."""
