"""One rank of a gloo group is frozen or killed, before or in an operation: everything ends in time, and it is named."""
