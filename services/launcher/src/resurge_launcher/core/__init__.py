"""The pure rules of the launcher."""
