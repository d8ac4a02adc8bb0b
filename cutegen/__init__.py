"""cutegen: from a declarative kernel spec to a compiled, verified, standalone CuTeDSL module."""

__version__ = "0.1.0"
