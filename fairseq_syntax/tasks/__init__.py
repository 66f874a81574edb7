"""The tasks, registered with fairseq on import."""

from fairseq_syntax.tasks import syntax_translation

__all__ = ["syntax_translation"]
