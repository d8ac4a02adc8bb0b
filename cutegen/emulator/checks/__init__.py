"""What can be wrong with a run, and the records that find it: poison, races, and reads that are still going on."""
