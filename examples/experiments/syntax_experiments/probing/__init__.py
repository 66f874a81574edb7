"""Probing: what of a sentence's syntax a linear classifier reads off frozen encoder states."""
