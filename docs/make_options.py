"""Write the page of all options, docs/options.md, from the code that declares them: python docs/make_options.py"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from fairseq.dataclass.utils import interpret_dc_type
from fairseq.tasks.sentence_prediction import SentencePredictionConfig
from fairseq.tasks.translation import TranslationConfig

import fairseq_syntax  # noqa: F401  (registers masks)
from fairseq_syntax.criterions.predicted_parses import PredictedParsesConfig
from fairseq_syntax.encoder.encoder_options import PARTS, GateOptions, SyntaxEncoderOptions
from fairseq_syntax.modules.biases import bias_names, bias_options, bias_type
from fairseq_syntax.modules.pooling import PoolingOptions
from fairseq_syntax.options import Option, options_of
from fairseq_syntax.tasks.example_task import ExampleTaskConfig
from fairseq_syntax.tasks.syntax_sentence_ranking import StockRankingConfig, SyntaxSentenceRankingConfig
from fairseq_syntax.tasks.syntax_span_prediction import SyntaxSpanPredictionConfig
from fairseq_syntax.tasks.syntax_task import SyntaxTaskConfig
from fairseq_syntax.tasks.translation_options import SyntaxTranslationConfig

PAGE = Path(__file__).parent / "options.md"

_BEGIN = """\
# Options

What this plugin adds to fairseq's options, with defaults in brackets; a [system](systems.md)'s architecture sets some
others. For `fairseq-hydra-train`, write `_` for `-`, and put an option under `model`, `task` or `criterion`.
"""


def options_page() -> str:
    """Return the page."""
    names = bias_names()
    summaries = ((f"`{name}`", str(bias_type(name).__doc__).partition("\n")[0].removesuffix("."), "") for name in names)
    parts = [
        _BEGIN,
        "## Of the model\n",
        "An option that is [on] or [off] has a `--no-…`, too.\n",
        _list(_of_ours(o) for part in (SyntaxEncoderOptions, GateOptions) for o in options_of(part)),
        "## Of the masks\n",
        "Names in `--syntax-masks`:\n",
        _list(summaries),
        "Their options:\n",
        _list(_of_ours(o) for name in names for o in bias_options(name)),
        "## Of the other places where syntax enters\n",
        _list(_of_ours(o) for part in PARTS.values() if part is not GateOptions for o in options_of(part)),
        "## Of `syntax_roberta` alone\n",
        _list(map(_of_ours, options_of(PoolingOptions))),
        "## Of every task\n",
        _list(_of_fairseqs(SyntaxTaskConfig)),
        "## Of `syntax_translation`\n",
        _list(_of_fairseqs(SyntaxTranslationConfig, SyntaxTaskConfig, TranslationConfig)),
        "## Of `syntax_sentence_prediction` and `syntax_sentence_ranking`\n",
        _list(_of_fairseqs(ExampleTaskConfig, SyntaxTaskConfig)),
        "## Of `syntax_sentence_ranking` alone\n",
        _list(_of_fairseqs(SyntaxSentenceRankingConfig, ExampleTaskConfig, StockRankingConfig)),
        "## Of `syntax_span_prediction`\n",
        _list(_of_fairseqs(SyntaxSpanPredictionConfig, SyntaxTaskConfig, SentencePredictionConfig)),
        "## Of the criterions `label_smoothed_cross_entropy_with_syntax` and `masked_lm_with_syntax`\n",
        _list(_of_fairseqs(PredictedParsesConfig)),
    ]
    return "\n".join(parts)


def _list(entries: Iterable[tuple[str, str, str]]) -> str:
    lines = (
        f"- {name}{default and f' [{default}]'}: {meaning}".replace("<", "&lt;") for name, meaning, default in entries
    )
    return "".join(f"{line}\n" for line in lines)


def _one_of(choices: Iterable[str]) -> str:
    """Return the choices as `--help` writes them."""
    names = ",".join(choices)
    return names and f"{{{names}}}"


def _of_ours(option: Option) -> tuple[str, str, str]:
    """Return the entry of an option that is declared in our way."""
    if option.kind is bool:
        return f"`{option.flag}`", option.about["help"], "on" if option.default else "off"
    values = _one_of(option.about["choices"] or ()) or {int: "N", float: "X"}.get(option.kind, "TEXT")
    return f"`{option.flag} {values}`", *_meaning_and_default(option.about["help"], option.default)


def _of_fairseqs(config: type, *without: type) -> Iterator[tuple[str, str, str]]:
    """Yield the entries of a configuration that is declared in fairseq's way, without what others have."""
    theirs = {field.name for other in without for field in dataclasses.fields(other)}
    for field in dataclasses.fields(config):
        if field.name in theirs or "help" not in field.metadata:
            continue
        kind: Any = interpret_dc_type(field.type)
        values, default = {float: " X", int: " N", bool: ""}.get(kind, " TEXT"), field.default
        if isinstance(kind, type) and issubclass(kind, Enum):
            values = f" {_one_of([str(choice.value) for choice in kind])}"
        flag = f"`--{field.name.replace('_', '-')}{values}`"
        yield flag, *_meaning_and_default(field.metadata["help"], None if field.type is bool else default)


def _meaning_and_default(help: str, default: object) -> tuple[str, str]:
    """Return a help without its last words, if they give the default, and the default."""
    meaning, in_help = re.fullmatch(r"(.*?)(?:(?:; | \()default: (.*?)\)?)?", help).groups()
    if default is not None:
        return meaning, f"`{default:g}`" if isinstance(default, float) else f"`{default}`"
    return meaning, in_help or ""


if __name__ == "__main__":
    PAGE.write_text(options_page(), encoding="utf-8")
