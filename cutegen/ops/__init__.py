"""What kernels compute, whoever computes it: an op's form, reference, work, peers, shapes to measure at and starter."""
