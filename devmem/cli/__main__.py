"""Lets `python -m devmem.cli` do what `devmem` does."""

from devmem.cli import main

main()
