"""The search for the fastest schedule of a kernel, and how the winner gets into its spec.

space -> pruning -> artefacts -> search -> editing; `flow` ties them, `log` remembers what was measured.
"""
