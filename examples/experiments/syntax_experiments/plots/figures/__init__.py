"""Pictures, one function a file: each draws a table of :mod:`syntax_experiments.plots` by matplotlib."""
