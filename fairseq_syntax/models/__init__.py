"""The architectures, registered with fairseq on import."""

from fairseq_syntax.models import gated_syntax_transformer

__all__ = ["gated_syntax_transformer"]
