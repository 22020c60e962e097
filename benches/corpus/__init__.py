"""Programs that benchmarks and tests run: the adversarial suite, its controls, published networks."""
