"""The resumable job of fairseq-syntax-parse."""
