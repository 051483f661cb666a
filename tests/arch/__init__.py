"""Checks of the house rules: sizes, imports, settings, sleeps, exceptions, protos, generated code."""
