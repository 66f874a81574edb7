"""The commands fairseq-syntax-parse, -binarize, -score and -analyze; and the command lines of
fairseq-syntax-dump and fairseq-syntax-average-checkpoints, which fairseq_syntax.commands do."""
