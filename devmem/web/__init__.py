"""A page on this machine that shows what is remembered, what agents were shown, and why.

`devmem web` serves it; the extra `web` has what it needs.
"""
