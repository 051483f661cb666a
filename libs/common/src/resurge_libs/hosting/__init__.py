"""Runs services, all or any subset, in one process: command line, claims, server, signals, exit codes."""
