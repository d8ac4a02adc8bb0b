"""Receipts: what was verified and measured of a kernel, in files that are committed beside the modules."""
