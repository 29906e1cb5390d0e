"""The measured stores, one module each, run as processes of their own so that memory is measured separately.

Those of peers import nothing of devmem: the interpreter that has the peer runs them.
"""
