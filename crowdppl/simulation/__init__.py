"""Simulated annotators and data."""
