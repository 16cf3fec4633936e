"""Statistics that know nothing of annotators: arrays in, arrays and numbers out."""
