"""The faults that a run can have, and the records that find them: poison, races, and reads in flight."""
