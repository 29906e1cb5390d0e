"""Models that were exported to ONNX: a folder as the hub has it, with the graph and `tokenizer.json`."""

from devmem.embedding.onnx_folder.provider import Provider

__all__ = ["Provider"]
