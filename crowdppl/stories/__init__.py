"""What stories are written in: the truth, tables of annotators, the shared likelihood, priors."""
