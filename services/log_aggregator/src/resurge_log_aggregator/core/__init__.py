"""The log aggregator's pure core: which block follows on which, and when a file is complete."""
