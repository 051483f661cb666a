"""Log aggregator: what was printed. One file per cycle, one writer per file, acknowledged only when durable."""
