"""Small faults put into the worker SDK's watchdogs on purpose: for each some test must fail, or a reason be given."""
