#!/usr/bin/env python3
"""The command fairseq-syntax-parse, as a script in a checkout: the package lies beside it."""

from syntax_data.commands.parse import main

if __name__ == "__main__":
    main()
