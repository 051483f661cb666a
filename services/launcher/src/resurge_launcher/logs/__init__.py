"""What workers print, on its way to the log aggregator: spooled on this node, shaped into lines, shipped."""
