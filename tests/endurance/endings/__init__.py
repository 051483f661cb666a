"""Every kind of end a job can have, in real processes, many times over."""
