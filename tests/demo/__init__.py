"""`make demo`: a real training on two nodes and a spare survives five faults, one after the other, on this machine."""
