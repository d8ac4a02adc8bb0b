"""A module that is imported last."""
