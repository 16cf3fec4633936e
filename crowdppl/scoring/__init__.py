"""How good probabilities are, where truths are known."""
