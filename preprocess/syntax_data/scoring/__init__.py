"""Scores of translations and of predictions."""
