"""Each message of data, cli and fitting: what provokes it, and what its remedy leads to."""
