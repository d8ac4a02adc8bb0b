"""`cutegen run`: runs any function on the emulator, with arguments and a reference from files."""
