"""Rules that several families ask, each about what a family tells it: where a schedule says it, and what may help."""
