"""The words a model is written in."""
