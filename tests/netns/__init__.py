"""`make netns`: network namespaces as nodes, links that go down, packets that are lost, and what a job makes of it."""
