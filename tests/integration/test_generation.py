"""All that fairseq-generate can do, it does with parses."""

from __future__ import annotations

import pytest

import commands


def generated(trained, *more: str, data=None) -> str:
    return commands.generate_log(data or trained.data, trained.checkpoint, more=more)


def lines(log: str, kind: str) -> list[str]:
    return [line for line in log.splitlines() if line.startswith(f"{kind}-")]


@pytest.mark.parametrize(
    "search",
    [
        ("--sampling", "--sampling-topk=5", "--nbest=2", "--seed=1"),
        ("--diverse-beam-groups=2", "--beam=4", "--lenpen=2", "--unnormalized", "--no-repeat-ngram-size=2"),
    ],
)
def test_every_search_sees_the_parse(trained, data_bin, search):
    log = generated(trained, *search)
    assert len({line.split("\t")[0] for line in lines(log, "H")}) == len(trained.lines)
    assert lines(generated(trained, *search), "H") == lines(log, "H")
    assert lines(generated(trained, *search, data=data_bin), "H") != lines(log, "H")  # other trees of the same text


def test_a_test_set_without_references(trained, tmp_path):
    parses = trained.parses.with_suffix("")
    data = commands.binarize_source(trained.bpe_text / "test", parses, trained.data, tmp_path / "data")
    log = generated(trained, data=data)
    assert lines(log, "T") == []
    commands.assert_same(commands.scored(log, "H"), commands.generate_scored(trained.data, trained.checkpoint))


def test_prefix_tokens_are_kept(trained):
    whole = "--post-process=none"  # subwords stay subwords

    def starts(log: str, kind: str) -> dict[str, list[str]]:
        fields = [line.split("\t") for line in lines(log, kind)]
        return {number[2:]: rest[-1].split()[:2] for number, *rest in fields}

    log = generated(trained, "--prefix-size=2", whole)
    assert starts(log, "H") == starts(log, "T")
    assert starts(generated(trained, whole), "H") != starts(log, "T")


def test_alignments_are_printed(trained):
    found = lines(generated(trained, "--print-alignment"), "A")
    assert len(found) == len(trained.lines)
    for line in found:
        pairs = [tuple(map(int, pair.split("-"))) for pair in line.split("\t")[1].split()]
        n = len(trained.subwords[int(line[2:].split("\t")[0])].split())
        assert pairs
        assert all(0 <= source <= n for source, _ in pairs)


def test_options_for_new_text_are_refused_where_a_data_bin_is_read(trained, tmp_path):
    for run in (
        lambda option: generated(trained, option),
        lambda option: commands.train(trained.data, tmp_path / "run", "--max-update=1", option),
        lambda option: commands.validate(trained.data, trained.checkpoint, option),
    ):
        with pytest.raises(ValueError, match=r"^--parser-device: expected with fairseq-interactive alone"):
            run("--parser-device=cpu")
    # But in Python new text may be read beside it.
    model = commands.hub(trained, parser="none")
    model.task.load_dataset("test")
    assert len(model.task.dataset("test")) == len(trained.lines)
