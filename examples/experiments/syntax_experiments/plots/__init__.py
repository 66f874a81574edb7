"""Pictures of experiments: scores, gates, attention, attention biases and trees.

Nothing here needs torch. :mod:`~syntax_experiments.plots.picture_data` computes the numbers of a picture as a table,
:mod:`~syntax_experiments.plots.drawings` draws them. Needs the packages of the extra ``analysis``.
"""
