"""Operations: each instruction as a function that changes the state of the lanes in a mask."""
