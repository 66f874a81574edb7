"""Options of scores: how translations become text."""

from __future__ import annotations

import argparse

from syntax_data.scoring.metrics import ScoreSettings
from syntax_data.scoring.translations import MARKS


def add_scoring_options(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add them, by sacreBLEU's names where sacreBLEU has the option."""
    parser.add_argument("--remove-bpe", choices=list(MARKS), help="undo subwords of this kind (default: do not)")
    parser.add_argument(
        "--detokenize",
        metavar="LANG",
        type=_language,
        help="undo Moses' tokenisation and escapes by the rules of this language, a code that sacremoses knows, such "
        "as de (default: do not)",
    )
    parser.add_argument("--lowercase", action="store_true", help="BLEU and chrF2 of lower-cased text (default: cased)")
    parser.add_argument(
        "--tokenize",
        metavar="NAME",
        type=_tokenizer,
        default="13a",
        help="tokeniser of BLEU, one of sacreBLEU's: 13a, intl, zh, ja-mecab, char … (default: %(default)s)",
    )


def _language(code: str) -> str:
    # To any other code sacremoses would apply the general rules, without a word.
    from sacremoses.corpus import NonbreakingPrefixes

    known = sorted({*NonbreakingPrefixes().available_langs.values(), "ja", "ko"})
    if code not in known:
        raise argparse.ArgumentTypeError(f"sacremoses knows {', '.join(map(repr, known))}, found {code[:20]!r}")
    return code


def _tokenizer(name: str) -> str:
    try:
        return ScoreSettings(tokenize=name).tokenize
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
