"""The parts of `StoreSuite`."""
