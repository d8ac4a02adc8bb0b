"""YAML 1.2 over PyYAML, which reads YAML 1.1: events of a text, and the values of plain scalars."""
