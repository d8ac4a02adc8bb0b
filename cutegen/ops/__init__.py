"""The computations of kernels, whichever family performs them: an op's form, reference, work, peers, shapes to measure
at and starter.
"""
