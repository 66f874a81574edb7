"""Repairs of fairseq and torch, a file each."""
