"""Feature files beside the token files of a data-bin.

All are fairseq's mmap datasets of small integers. For the source side of a pair, a data-bin has::

    train.en-de.en.{bin,idx}              tokens (fairseq-preprocess)
    train.en-de.en.distance.{bin,idx}     a feature (fairseq-syntax-binarize), one integer for each token
    syntax.en-de.en.json                  the signature: parser, settings and counts of each split, and size and hash
                                          of each of its token and feature files

Without languages (``--only-source``) they are ``train.{bin,idx}``, ``train.distance.{bin,idx}`` and ``syntax.json``.

A sentence without a parse has no values in the features of that parse.
"""
