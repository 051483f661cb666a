"""What a person sees: log events, recovery spans and their exporters."""
