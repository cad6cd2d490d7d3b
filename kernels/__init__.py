"""The compiled scoring core: pure functions over arrays, no state, no Python objects; imported as `viking_kernels`."""
