"""Whether to believe a fit: checks of labels drawn from it, doubts, annotators to look at, who agrees."""
