"""What `cutegen run` does: a function of anyone's, with arguments and a reference from files, on the emulator."""
