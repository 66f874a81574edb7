"""The commands fairseq-syntax-parse, fairseq-syntax-binarize and fairseq-syntax-score."""
