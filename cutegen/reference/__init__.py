"""The reference: a spec's statements in float64, with a bound on how far rounding may take a correct kernel."""
