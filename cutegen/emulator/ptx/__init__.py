"""PTX text and what it says: a lexer, a parser, and the data that they make of a file."""
