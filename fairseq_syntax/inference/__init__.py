"""Translation of new text."""
