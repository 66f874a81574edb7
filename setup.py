"""Metadata of the package; the settings of the tools are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

here = Path(__file__).parent
version = re.search(r'^__version__ = "(.+)"$', (here / "preprocess/syntax_preprocess/__init__.py").read_text(), re.M)[1]

setup(
    name="fairseq-syntax",
    version=version,
    description="Syntax-aware neural machine translation for fairseq",
    long_description=(here / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    keywords=["machine translation", "syntax", "parsing", "constituency", "dependency", "Transformer", "fairseq"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
    ],
    python_requires=">=3.11",
    packages=[
        *find_packages(include=["fairseq_syntax*"]),
        *find_packages("preprocess"),
        *find_packages("examples/experiments"),
    ],
    package_dir={
        "syntax_preprocess": "preprocess/syntax_preprocess",
        "syntax_experiments": "examples/experiments/syntax_experiments",
    },
    package_data={
        "fairseq_syntax": ["py.typed"],
        "syntax_preprocess": ["py.typed", "analysis/page.html"],
        "syntax_experiments": ["Snakefile", "recipes/**/*.yaml", "corpora/*.py", "gates/**/*.py", "measures/*.py"],
    },
    install_requires=[
        "fairseq-fixed>=0.12.3,<0.13",  # compat repairs these versions
        "numpy>=1.23",
        "sacrebleu>=2",
        "sacremoses",
        "sentencepiece",
        "subword-nmt",
        "torch>=2.6",
        "tqdm",
    ],
    extras_require={
        "analysis": ["jinja2", "matplotlib", "nltk", "scikit-learn"],  # for fairseq-syntax-analyze and -probe
        "dev": [
            "fairseq-syntax[analysis,docs,experiments,serve,spacy,stanza,udpipe]",
            "httpx",
            "hypothesis",
            "mypy",
            "playwright",
            "pytest",
            "pytest-timeout",
            "pytest-xdist",
            "ruff",
        ],
        "docs": ["mkdocs-material", "mkdocstrings[python]"],  # for the documentation as a site
        "experiments": ["pyyaml", "scipy>=1.11", "snakemake>=9"],  # for fairseq-syntax-experiment
        "ray": ["ray[data]"],  # for examples/parse_at_scale
        "serve": ["fastapi", "uvicorn"],  # for examples/serve
        # parsers
        "spacy": ["spacy>=3.7"],
        "stanza": ["stanza"],
        "udpipe": ["ufal.udpipe"],
    },
    entry_points={
        "console_scripts": [
            "fairseq-syntax-parse = syntax_preprocess.commands.parse:main",
            "fairseq-syntax-binarize = syntax_preprocess.commands.binarize:main",
            "fairseq-syntax-average-checkpoints = syntax_preprocess.commands.average_checkpoints:main",
            "fairseq-syntax-score = syntax_preprocess.commands.score:main",
            "fairseq-syntax-analyze = syntax_preprocess.commands.analyze:main",
            "fairseq-syntax-dump = syntax_preprocess.commands.dump:main",
            "fairseq-syntax-probe = syntax_preprocess.commands.probe:main",
            "fairseq-syntax-experiment = syntax_experiments.entry:main",
        ],
    },
)
