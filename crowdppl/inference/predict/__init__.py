"""Predictions and updates from a fit."""
