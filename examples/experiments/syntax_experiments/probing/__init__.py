"""Probing: the syntax that linear classifiers read from frozen encoder states."""
