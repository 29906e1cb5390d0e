"""Whether the tests notice a broken guarantee: mutation testing of the code that keeps items safe.

`python -m tools.mutants [NAME ...]` copies the project, breaks one guarantee at a time (`storage.py` and `access.py`
list how), runs the tests that should notice, and prints the changes that survived. Review the lists whenever code
changes that decides about durability, erasure or scopes.
"""
