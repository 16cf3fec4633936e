"""Few-shot tasks, and methods that are trained on many of them."""
