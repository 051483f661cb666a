"""Long runs of small real jobs: `make soak` restarts one 230 times, `make chaos` kills at any moment."""
