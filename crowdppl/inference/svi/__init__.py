"""Stochastic variational inference by gradients."""
