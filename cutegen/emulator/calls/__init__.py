"""Functions of anyone: what CuTeDSL compiles while they run is launched on the emulator."""
