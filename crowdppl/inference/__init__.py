"""Engines: they know models, never a method by name."""
