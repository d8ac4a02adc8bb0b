"""What the 32 threads of a warp do together: shuffles, votes, reductions, matrix copies and products."""
