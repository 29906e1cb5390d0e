"""The forward pass of BERT models that are 384 wide, in numpy and in onnxruntime, and the base of their providers."""
