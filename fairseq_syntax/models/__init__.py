"""The models and their architectures, registered with fairseq on import."""

from fairseq_syntax.models import architectures
from fairseq_syntax.models import roberta as syntax_roberta
from fairseq_syntax.models import transformer as gated_syntax_transformer

__all__ = ["architectures", "gated_syntax_transformer", "syntax_roberta"]
