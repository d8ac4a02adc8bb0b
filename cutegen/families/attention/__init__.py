"""Kernels of contractions, such as attention: what their skeletons share, and a folder for each."""
