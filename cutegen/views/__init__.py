"""Parts of tensors: sizes that are computed of modes, and where the elements of a view lie in its argument."""
