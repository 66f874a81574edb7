"""The tasks, registered with fairseq on import."""

from fairseq_syntax.tasks import (
    syntax_masked_lm,
    syntax_sentence_prediction,
    syntax_sentence_ranking,
    syntax_span_prediction,
    syntax_translation,
)

__all__ = [
    "syntax_masked_lm",
    "syntax_sentence_prediction",
    "syntax_sentence_ranking",
    "syntax_span_prediction",
    "syntax_translation",
]
