"""Makes `python -m devmem` the `devmem` command."""

from devmem.cli import main

main()
