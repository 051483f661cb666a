"""The pure rules of the restart policy."""
