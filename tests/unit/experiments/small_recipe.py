"""A recipe of two systems, whose text would be downloaded."""

SMALL = """\
source: de
target: en
corpus:
  downloads:
    all: {url: "http://localhost/all.tgz"}
  splits:
    train: {source: ["all!train.de"], target: ["all!train.en"]}
    valid: {source: ["all!valid.de"], target: ["all!valid.en"]}
    test: {source: ["all!test.de"], target: ["all!test.en"]}
seeds: [1, 2]
systems:
  stock: {architecture: transformer, parser: none}
  gated: {architecture: gated_syntax_transformer}
baselines: [stock]
"""
