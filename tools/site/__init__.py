"""The documentation as a site: pages of `docs/`, a generated reference, and the same as text for language models."""
