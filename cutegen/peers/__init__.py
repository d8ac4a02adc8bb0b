"""What kernels are measured against: peers, functions of libraries, and which spec computes what one of them does."""
