"""Logs, translations, parses and dumps to tables; :mod:`~syntax_experiments.plots.figures` draws each table.

Nothing here needs torch. Only the figures and the page need the packages of the extra ``analysis``.
"""
