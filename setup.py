"""Metadata and the settings of all tools are in pyproject.toml."""

from setuptools import setup

setup()
