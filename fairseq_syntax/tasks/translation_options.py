"""Options of the task ``syntax_translation``."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.translation import TranslationConfig
from omegaconf import II

from fairseq_syntax.tasks.syntax_task import SyntaxTaskConfig
from syntax_data.trees.bad_parses import ON_BAD_PARSE


@dataclass
class SyntaxTranslationConfig(SyntaxTaskConfig, TranslationConfig):
    """fairseq's translation options, and the source of parses of new text.

    The features that are read follow from the model.
    """

    parser: Optional[str] = field(
        default=None,
        metadata={
            "help": "parser of new text: its name, or none to translate without syntax (default: the training data's, "
            "as its signature records it; its other settings are used in any case)"
        },
    )
    parser_models: Optional[str] = field(
        default=None,
        metadata={"help": "folder of the parser's models, or spaCy's pipeline (default: the parser's own)"},
    )
    parser_device: Optional[str] = field(
        default=None, metadata={"help": "device of the parser, cpu or cuda (default: a GPU if there is one)"}
    )
    input_parses: Optional[str] = field(
        default=None,
        metadata={
            "help": "prefix of PREFIX.trees and PREFIX.conllu, with a parse for each line of new text, in order "
            "(default: run a parser)"
        },
    )
    on_bad_parse: Optional[ChoiceEnum(ON_BAD_PARSE)] = field(  # type: ignore[valid-type]
        default=None,
        metadata={
            "help": "a parse of --input-parses that is broken, or of another text: an error, or skip it and translate "
            "the line without (default: as for the features of the training data)"
        },
    )

    gpt2_encoder_json: Optional[str] = field(
        default=None,
        metadata={"help": "encoder.json, for new text whose training data has --subwords gpt2"},
    )

    source_subword_sampling: float = field(
        default=0.0,
        metadata={
            "help": "split the training set's source again each epoch, leaving out a merge with this probability "
            "(BPE-dropout), or by this α of a unigram model; default: 0"
        },
    )
    target_subword_sampling: float = field(default=0.0, metadata={"help": "the same for the target (default: 0)"})
    subword_model: Optional[str] = field(
        default=None,
        metadata={
            "help": "for subword sampling: the merges of subword-nmt, or sentencepiece model, of the data-bin's text; "
            "the source's and the target's, with a comma, if they differ"
        },
    )

    seed: int = II("common.seed")
    interactive_input: str = II("interactive.input")
    post_process: Optional[str] = II("common_eval.post_process")
