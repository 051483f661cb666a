"""The subcommands of `resurge`, one module each, imported only when called."""
