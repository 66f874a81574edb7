"""From a recipe to a table: the workflow, its recipes, and their scripts."""
