"""Matrix products: a folder for each kind of multiply-add, and what they share."""
