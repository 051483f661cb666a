"""Test tools: virtual clock, simulated network, fault injectors, oracle."""
