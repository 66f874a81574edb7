"""Lines of text, and subwords aligned to the words of parses."""
