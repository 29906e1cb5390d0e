"""Seven trips through devmem, recorded call by call: figures, pictures for the documentation, and the size of the code.

`python -m tools.trips` has the command; `--help` lists its options.

A page that has pictures, such as `docs/architecture.md`, holds one block for each trip: `add`, `get`, `search`,
`retrieve`, `update`, `erase` and `run`. The lines between the markers are generated; text around them is kept:

    <!-- trips:add -->
    (replaced by `python -m tools.trips --write docs/architecture.md`)
    <!-- /trips:add -->

`python -m tools.trips --check docs/architecture.md` exits with 1 when a recorded trip differs from its picture.
"""
