"""Scripted stand-ins for one side of a wire, shared by contract, integration and end-to-end tests."""
