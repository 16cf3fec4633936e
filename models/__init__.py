"""The zoo: one method a file, named like the method: its generative story, its settings and its card."""
