"""Pure values and machines: no clock, no chance, no input or output."""
