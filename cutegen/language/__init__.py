"""The language: YAML text to `KernelSpec`, with a diagnostic and a place for everything that is wrong."""
