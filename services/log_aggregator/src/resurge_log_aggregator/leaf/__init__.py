"""The leaf: gathers what many nodes send, and passes it on to the root in one stream. Keeps nothing."""
