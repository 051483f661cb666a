"""Host: the composition root, the only importer of several services."""
