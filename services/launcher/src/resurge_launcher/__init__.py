"""Launcher: one per node, owns the worker processes; home of the resurge command."""
