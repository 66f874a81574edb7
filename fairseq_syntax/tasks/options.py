"""The options of the task."""

# No postponed annotations here: fairseq reads the types of a configuration's fields at run time.

from dataclasses import dataclass, field
from typing import Optional

from fairseq.dataclass import ChoiceEnum
from fairseq.tasks.translation import TranslationConfig
from omegaconf import II

from syntax_data.trees.bad_parses import ON_BAD_PARSE


@dataclass
class SyntaxTranslationConfig(TranslationConfig):
    """fairseq's translation options, and where parses of new text come from (fairseq-interactive, from_pretrained).

    Which features are read follows from the model.
    """

    parser: Optional[str] = field(
        default=None,
        metadata={
            "help": "what parses new text: the name of a parser, or none to translate without syntax "
            "(default: the training data's, as its signature records it; its other settings hold in any case)"
        },
    )
    stanza_dir: Optional[str] = field(
        default=None, metadata={"help": "folder of the parser's models (default: its own)"}
    )
    parser_device: Optional[str] = field(
        default=None, metadata={"help": "where the parser runs, cpu or cuda (default: on a GPU if there is one)"}
    )
    input_parses: Optional[str] = field(
        default=None,
        metadata={
            "help": "prefix of files PREFIX.trees and PREFIX.conllu with a parse for each line of new text, in its "
            "order (default: a parser runs)"
        },
    )
    on_bad_parse: Optional[ChoiceEnum(ON_BAD_PARSE)] = field(  # type: ignore[valid-type]
        default=None,
        metadata={
            "help": "a parse of --input-parses that is broken, or of another text than its line: an error, or skip it, "
            "so that the line is translated without it, and counted (default: as the features of the training data "
            "were made)"
        },
    )

    cpu_dropout: ChoiceEnum(["fast", "torch"]) = field(  # type: ignore[valid-type]
        default="fast",
        metadata={
            "help": "how dropout modules of all models draw on a CPU: 16 random bits an entry, their probabilities "
            "rounded to multiples of 2^-16 (fast), or as torch does, 64 bits an entry (torch); attention that fairseq "
            "leaves to torch has torch's; default: fast"
        },
    )

    cudnn_attention: bool = field(
        default=False,
        metadata={
            "help": "lets torch take cuDNN's attention on a GPU, its first choice on Hopper, which torch 2.11 to 2.13 "
            "compute wrongly under some masks (default: off, for all models of the process)"
        },
    )

    interactive_input: str = II("interactive.input")
    post_process: Optional[str] = II("common_eval.post_process")
    tpu: bool = II("common.tpu")
    ddp_backend: str = II("distributed_training.ddp_backend")
    tensorboard_logdir: Optional[str] = II("common.tensorboard_logdir")
    valid_subset: str = II("dataset.valid_subset")
