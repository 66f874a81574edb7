"""Counts of parses, and what reports and records say of them."""

from __future__ import annotations

from collections import Counter

from syntax_data.trees.counts import ParseCounts, TextCounts


def test_reports():
    counts = ParseCounts(2, Counter(empty=1, failed=3))
    assert counts.total == 6
    assert str(counts) == "2 parsed (33.33%), without a parse: 3 failed, 1 empty"
    assert str(ParseCounts(1)) == "1 parsed (100.00%), without a parse: 0"
    assert str(ParseCounts()) == "0 parsed (0.00%), without a parse: 0"
    many = ParseCounts(0, Counter({f"r{i:02}": 1 for i in range(12)} | {"x" * 1000: 2}))
    assert many.reasons().startswith("2 'xxx")
    assert many.reasons().endswith("xxx', 1 r00, 1 r01, 1 r02, 1 r03, 1 r04, 1 r05, 1 r06, 5 others")
    assert len(many.reasons()) < 300


def test_counts_are_added_as_far_as_both_have_them():
    counts, of_text = ParseCounts(), TextCounts(1, Counter(empty=2), tokens=5, sentences=1)
    for _ in range(2):
        counts.update(of_text)
    assert counts == ParseCounts(2, Counter(empty=4))
    of_text.update(TextCounts(1, tokens=2, multiword=1, sentences=2, split_lines=1))
    assert of_text == TextCounts(2, Counter(empty=2), tokens=7, multiword=1, sentences=3, split_lines=1)
    assert str(of_text) == (
        "4 lines: 2 parsed (50.00%), without a parse: 2 empty; 7 tokens (1 of several words) in 3 sentences "
        "(1 lines have several)"
    )


def test_counts_as_json():
    counts = TextCounts(1, Counter({"empty": 2, "a.b": 1}), tokens=5, sentences=1)
    found = counts.as_dict()
    assert list(found.items()) == [
        ("multiword", 0), ("no_parse.a.b", 1), ("no_parse.empty", 2), ("parsed", 1), ("sentences", 1),
        ("split_lines", 0), ("tokens", 5),
    ]  # fmt: skip
    assert TextCounts.from_dict(found) == counts
    assert TextCounts.from_dict({"no_parse.empty": 3}) == TextCounts(no_parse=Counter(empty=3))
