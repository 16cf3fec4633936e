"""Engines: they know stories, never a method by name."""
