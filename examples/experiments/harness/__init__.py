"""From a recipe to a table: what the workflow in examples/experiments is made of."""
