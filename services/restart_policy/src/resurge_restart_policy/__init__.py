"""Restart policy: decides WHAT to do about an incident."""
