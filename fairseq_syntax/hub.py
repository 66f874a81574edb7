"""Translating raw text from Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from fairseq import utils
from fairseq.hub_utils import GeneratorHubInterface

from fairseq_syntax.analysis import CONTENTS, by_sentence
from fairseq_syntax.inference import SourceTokens


class SentenceTooLong(ValueError):
    """A sentence is longer than the model can read."""


class SyntaxHubInterface(GeneratorHubInterface):
    """fairseq's hub interface, which also parses: ``translate("A sentence.")`` and ``translate(["One.", "Two."])``.

    Sentences are tokenised, split into subwords, parsed, translated and detokenised; the parser is loaded at the first
    one. Not for several threads at a time.
    """

    def sample(
        self, sentences: str | Sequence[str], beam: int = 1, verbose: bool = False, **kwargs: Any
    ) -> str | list[str]:
        """As fairseq's: the best translation of each sentence.

        Raises:
            SentenceTooLong: a sentence is longer than the model can read.
        """
        if isinstance(sentences, str):
            return self.sample([sentences], beam=beam, verbose=verbose, **kwargs)[0]
        hypotheses = self.generate(self.read(sentences), beam, verbose, **kwargs)
        return [self.decode(found[0]["tokens"]) for found in hypotheses]

    def read(self, sentences: Sequence[str]) -> SourceTokens | list[Any]:
        """Sentences as :meth:`generate` takes them: tokenised, as subwords, parsed if the model needs that.

        Raises:
            SentenceTooLong: a sentence is longer than the model can read.
        """
        if self.task.syntax_features:
            self.task.source_reader.restart()  # messages number the sentences of this call
        tokens, lengths = self.task.get_interactive_tokens_and_lengths(
            sentences, lambda sentence: self.apply_bpe(self.tokenize(sentence))
        )
        longest = min(self.max_positions[0], self.cfg.dataset.max_tokens or self.max_positions[0])
        for number, length in enumerate(lengths, start=1):
            if length > longest:
                raise SentenceTooLong(
                    f"sentence {number}: expected at most {longest} subwords with </s>, found {length}"
                )
        return tokens

    def analyse(self, tokens: SourceTokens, contents: Sequence[str] = CONTENTS) -> list[dict[str, np.ndarray]]:
        """Gates, masks and attention of each sentence of :meth:`read` in the first of the models; see
        :func:`fairseq_syntax.analysis.by_sentence`."""
        dataset = self.task.build_dataset_for_inference(tokens, [len(ids) for ids in tokens])
        batch = dataset.collater([dataset[i] for i in range(len(tokens))])
        batch = utils.apply_to_sample(lambda tensor: tensor.to(self.device), batch)
        found = dict(by_sentence(self.models[0], batch, pad=self.src_dict.pad(), contents=contents))
        return [found[i] for i in range(len(tokens))]
