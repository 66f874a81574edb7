"""The commands fairseq-syntax-dump and fairseq-syntax-average-checkpoints."""
