"""Parses and the formats of files that hold them."""
