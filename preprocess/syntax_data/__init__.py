"""Text and its parses to the integers that a data-bin holds of them, without torch and fairseq."""

__version__ = "0.1.0"
