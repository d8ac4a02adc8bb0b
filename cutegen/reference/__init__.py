"""What a right kernel gives: a spec's statements in float64, with a bound on how far roundings may take a kernel."""
