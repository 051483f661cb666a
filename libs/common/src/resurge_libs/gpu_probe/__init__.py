"""Asks the GPU driver's library, in a process that may be killed: no other process of the house ever loads it."""
