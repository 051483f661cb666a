"""Resurge in a training script: session, beats, milestones, fence. Standard library only."""
