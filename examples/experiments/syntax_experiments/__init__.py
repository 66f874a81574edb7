"""From a recipe to a table: the workflow, its recipes, and the scripts that they run."""
