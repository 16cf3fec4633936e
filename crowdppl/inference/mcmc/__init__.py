"""Gibbs and NUTS."""
