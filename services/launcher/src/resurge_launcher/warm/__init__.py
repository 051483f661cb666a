"""Warm start: workers forked from a process that has torch imported already, instead of started from nothing."""
