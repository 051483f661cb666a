"""Tools of the house without a domain verb: core, engine, config, obs, rpc, testing."""
