"""How good a method is: metrics, held-out scores, comparisons."""
