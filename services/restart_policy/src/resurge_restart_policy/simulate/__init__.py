"""Runs restart policies over a failure trace and compares what they would have cost. Pure but for its command."""
