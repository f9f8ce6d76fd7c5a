"""Files, locks, cores and signals of the machine: nothing here knows of ranking."""
