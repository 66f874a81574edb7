"""Counts of parses, and what reports and records say of them."""

from __future__ import annotations

from collections import Counter

from syntax_data.trees.counts import ParseCounts


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
