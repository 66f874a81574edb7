"""Paired tests are sacreBLEU's, but for p-values that it makes too small."""

from __future__ import annotations

from random import Random

import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from syntax_data.scoring.metrics import ScoreSettings, paired_test

WORDS = [f"wort{number}" for number in range(50)]


def corpus(*, sentences: int) -> list[str]:
    random = Random(1)
    return [" ".join(random.choices(WORDS, k=9)) for _ in range(sentences)]


def worse(lines: list[str], *, share: float, seed: int) -> list[str]:
    random = Random(seed)
    return [" ".join(word if random.random() > share else "falsch" for word in line.split()) for line in lines]


def p_values(system: list[str], baseline: list[str], references: list[str], kind: str) -> dict[str, float]:
    systems = {"baseline": baseline, "system": system}
    found = paired_test(systems, [references], settings=ScoreSettings(), kind=kind, samples=200)
    return {metric: result.p["system"] for metric, result in found.items()}


@pytest.mark.parametrize("kind", ["bs", "ar"])
def test_p_is_sacrebleus_where_many_sentences_differ(kind):
    references = corpus(sentences=60)
    base, like = (worse(references, share=0.5, seed=seed) for seed in (1, 2))
    metrics = {"BLEU": sacrebleu.BLEU(), "CHRF": sacrebleu.CHRF(), "TER": sacrebleu.TER()}
    _, expected = PairedTest([("b", base), ("s", like)], metrics, [references], test_type=kind, n_samples=200)()
    found = p_values(like, base, references, kind)
    assert found == {metric: expected[metric][1].p_value for metric in ("BLEU", "chrF2", "TER")}
    assert min(found.values()) > 0.05
    better = p_values(worse(references, share=0.05, seed=3), base, references, kind)
    assert set(better.values()) == {1 / 201}
    assert set(p_values(base, [*base], references, kind).values()) == {1.0}  # a system against itself


@pytest.mark.parametrize(("differ", "least"), [(1, 1.0), (2, 0.5), (4, 0.125)])
def test_few_sentences_prove_little(differ, least):
    references = corpus(sentences=20)
    base = worse(references, share=0.3, seed=1)
    # Better in each sentence that differs: no way to swap some of them gives a greater difference.
    changed = [n for n, (one, other) in enumerate(zip(base, references, strict=True)) if one != other][:differ]
    system = [references[n] if n in changed else line for n, line in enumerate(base)]
    assert set(p_values(system, base, references, "ar").values()) == {least}
