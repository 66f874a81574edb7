#!/usr/bin/env python3
"""The command fairseq-syntax-parse, as a script in a checkout."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fairseq_syntax.parse import main

if __name__ == "__main__":
    main()
