"""Data files to items: conversations and exports that a memory can be filled with."""
