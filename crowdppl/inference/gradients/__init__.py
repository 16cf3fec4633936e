"""svi: plain Pyro."""
