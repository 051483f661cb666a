"""Long runs of small real jobs: `make soak` restarts one a hundred times, `make chaos` kills at any moment."""
