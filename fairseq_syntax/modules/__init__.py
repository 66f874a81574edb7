"""Masks, gates and attention."""
