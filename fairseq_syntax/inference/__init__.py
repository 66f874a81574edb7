"""New text: its parses, translation, and examples of other tasks."""
