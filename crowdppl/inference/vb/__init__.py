"""EM and variational Bayes."""
