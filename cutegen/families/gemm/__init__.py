"""Matrix products: a folder for each kind of multiply-add, `staged` of what two of them share, files of what all do."""
