"""Runs a pure machine under asyncio: inbox, step, journal, effects."""
