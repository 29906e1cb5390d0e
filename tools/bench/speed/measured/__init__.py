"""What is measured, a module each, run as a process of its own so that its memory is its own.

Those of peers import nothing of devmem: the interpreter that has the peer runs them.
"""
