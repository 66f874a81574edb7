"""Feature files beside the token files of a data-bin.

They are fairseq's mmap indexed datasets of small integers. For the source side of a pair, a data-bin holds::

    train.en-de.en.{bin,idx}              tokens (fairseq-preprocess)
    train.en-de.en.distance.{bin,idx}     a feature (fairseq-syntax-binarize), as many integers a sentence
    train.en-de.en.text_hashes.bin        hashes of the sentences' subwords, 8 bytes each, little-endian
    syntax.en-de.en.json                  the signature: what the features of each split were made of, and size and hash
                                          of each of its files

A sentence whose entry is empty has no parse of that kind.
"""
