"""What is computed: the expression language of `compute`, its parser, and the types of every node."""
