"""Simulated annotators and data sets, whose truth is known."""
