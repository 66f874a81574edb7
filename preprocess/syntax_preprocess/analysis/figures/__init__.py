"""Pictures, one function a file: each draws a table of :mod:`syntax_preprocess.analysis` by matplotlib."""
