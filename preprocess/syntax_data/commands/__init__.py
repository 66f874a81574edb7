"""The command lines of the text half: fairseq-syntax-parse, -binarize and -score."""
