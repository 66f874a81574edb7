"""The commands fairseq-syntax-parse, fairseq-syntax-binarize and fairseq-syntax-score; and the command lines of
fairseq-syntax-dump and fairseq-syntax-average-checkpoints, which fairseq_syntax.commands do."""
