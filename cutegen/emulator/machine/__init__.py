"""Programs that are ready to run, and the machine that runs them block by block, barrier by barrier."""
