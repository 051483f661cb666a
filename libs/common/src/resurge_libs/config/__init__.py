"""Typed settings: flag over environment over YAML over default, each with its source."""
