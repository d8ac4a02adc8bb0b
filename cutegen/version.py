"""The version of cutegen, which every module that it generates bears."""

__version__ = "0.2.0"
