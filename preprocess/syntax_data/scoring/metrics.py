"""sacreBLEU's BLEU, chrF2 and TER, and its paired tests, with their signatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

#: The paired tests by sacreBLEU's short names.
TESTS = {"bs": "paired bootstrap resampling", "ar": "paired approximate randomisation"}


@dataclass(frozen=True, kw_only=True)
class ScoreSettings:
    """sacreBLEU's settings and defaults; `lowercase` is for BLEU and chrF2.

    Raises :class:`ValueError` for a tokeniser that sacreBLEU does not know.
    """

    tokenize: str = "13a"
    lowercase: bool = False
    ter_case_sensitive: bool = False

    def __post_init__(self) -> None:
        from sacrebleu.metrics import BLEU

        if self.tokenize not in BLEU.TOKENIZERS:
            known = ", ".join(map(repr, BLEU.TOKENIZERS))
            raise ValueError(f"sacreBLEU's tokenisers are {known}, found {self.tokenize[:20]!r}")

    def metrics(self) -> dict[str, Any]:
        """sacreBLEU's metrics, whose signatures are known once they have references."""
        from sacrebleu.metrics import BLEU, CHRF, TER

        return {
            "BLEU": BLEU(lowercase=self.lowercase, tokenize=self.tokenize),
            "CHRF": CHRF(lowercase=self.lowercase),
            "TER": TER(case_sensitive=self.ter_case_sensitive),
        }


@dataclass(frozen=True, kw_only=True)
class PairedResult:
    """The result of a paired test for one metric.

    Attributes:
        signature: of the metric and the test: version, settings, samples, seed.
        scores: of each system by its name, the baseline first.
        p: of each system but the baseline; the bootstrap's is one-sided, half of the randomisation's two-sided one.
    """

    signature: str
    scores: Mapping[str, float]
    p: Mapping[str, float]


def corpus_scores(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, settings: ScoreSettings
) -> dict[str, dict[str, Any]]:
    """``{"BLEU": {"score": 0 to 100, "signature": …}, "chrF2": …, "TER": …}``.

    Hypotheses are raw text, one a sentence; each reference is as long.
    """
    found = {}
    for metric in settings.metrics().values():
        score = metric.corpus_score(hypotheses, references)
        found[score.name] = {"score": score.score, "signature": metric.get_signature().format()}
    return found


def paired_test(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    *,
    settings: ScoreSettings,
    kind: Literal["bs", "ar"],
    samples: int,
) -> dict[str, PairedResult]:
    """sacreBLEU's paired test of systems against the first of them, by metric.

    sacreBLEU counts the samples whose difference is *greater* than the observed one. Where few sentences differ that
    makes p too small: 1 / (samples + 1) even for a system against itself. So p here is no smaller than the test can
    know: 1 where the scores are the same, and for the randomisation at least 2^(1 − k) where k sentences differ, since
    of its 2^k ways to swap them two leave the difference as it is.

    Args:
        systems: hypotheses by name, the baseline first.
        references: one sequence a reference, each as long as the hypotheses.
        kind: one of :data:`TESTS`.
        samples: bootstrap samples or randomisation trials; the seed is sacreBLEU's, which is part of the signature.

    Raises :class:`ValueError` if the samples do not fit into memory.
    """
    from sacrebleu.significance import PairedTest, Result

    baseline, *others = systems
    try:
        signatures, found = PairedTest(
            list(systems.items()), settings.metrics(), references, test_type=kind, n_samples=samples
        )()
    except MemoryError:
        count = len(systems[baseline])
        raise ValueError(f"{samples} samples of {count} sentences do not fit into memory: {TESTS[kind]}") from None
    results = {}
    for metric, signature in signatures.items():
        of = dict(zip(systems, cast("list[Result]", found[metric]), strict=True))
        scores = {name: result.score for name, result in of.items()}
        p = {}
        for name in others:
            differ = sum(map(str.__ne__, systems[name], systems[baseline])) if scores[name] != scores[baseline] else 0
            least = 2.0 ** (1 - differ) if kind == "ar" or not differ else 0.0
            p[name] = min(1.0, max(cast(float, of[name].p_value), least))
        results[metric] = PairedResult(signature=signature.format(), scores=scores, p=p)
    return results
