"""The tests, by layer: arch, unit, props, sim, contract, integration, e2e, gpu, bench."""
