"""The zoo: one method a file, named like the method: its generative model, its settings and its card."""
