"""Long runs of small real jobs: `make soak` restarts one 850 times, `make chaos` kills at any moment."""
