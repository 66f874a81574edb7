"""The resumable run of fairseq-syntax-parse."""
