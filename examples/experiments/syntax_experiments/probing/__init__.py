"""Probing: the syntax of a sentence that a linear classifier reads off frozen encoder states."""
