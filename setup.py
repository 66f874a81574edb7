"""For tools that call setup.py: metadata, like the settings of all tools, is in pyproject.toml."""

from setuptools import setup

setup()
