"""Questions with windows of passages, and the answers' spans in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, data_utils
from torch import Tensor

from fairseq_syntax.compat.last_batch import keep_last_batch
from fairseq_syntax.data.composition import Segment, compose
from fairseq_syntax.data.features import SplitFeatures
from fairseq_syntax.modules.syntax_batch import SyntaxBatch
from syntax_data.features import window as window_of_features
from syntax_data.squad.read import SquadExample
from syntax_data.squad.windows import windows

#: Tokens of an example that are neither question nor passage: ``<s> … </s> </s> … </s>``.
SPECIAL_TOKENS = 4


@dataclass(frozen=True)
class Layout:
    """The tokens of an example.

    Attributes:
        window: the most tokens, with special ones.
        stride: subwords of the passage from the start of a window to that of the next.
        max_question: subwords of the question to keep, from the first one.
        passage_first: ``<s> passage </s> </s> question </s>`` instead of ``<s> question </s> </s> passage </s>``.
    """

    window: int
    stride: int
    max_question: int
    passage_first: bool = False

    def __post_init__(self) -> None:
        if self.stride < 1 or self.max_question < 0:
            raise ValueError(
                f"expected --stride from 1 and --max-question from 0, found {self.stride} and {self.max_question}"
            )
        if self.window <= self.max_question + SPECIAL_TOKENS:
            raise ValueError(
                f"--window: expected more tokens than the question's {self.max_question} (--max-question) and "
                f"{SPECIAL_TOKENS} special ones, found {self.window}"
            )


@dataclass(frozen=True)
class Text:
    """Passages or questions, line by line.

    Attributes:
        tokens: of each line, with ``</s>``.
        features: of each line; none where the model needs none.
    """

    tokens: Any
    features: SplitFeatures

    def subwords(self, line: int) -> int:
        """Return the number of a line's subwords."""
        return int(self.tokens.sizes[line]) - 1

    def part(self, line: int, subwords: range) -> tuple[Tensor, Segment]:
        """Return the tokens of some of a line's subwords and ``</s>``, and their features.

        The features are those of a segment after one special token.
        """
        tokens: Tensor = self.tokens[line]
        whole = {name: rows[line].numpy() for name, rows in self.features.items()}
        cut = {name: torch.from_numpy(values) for name, values in window_of_features(whole, subwords).items()}
        part = torch.cat([tokens[subwords.start : subwords.stop], tokens[-1:]])
        return part, Segment(cut, len(part), before=1)


class PassageWindows(FairseqDataset):
    """Examples of a span task, one for each window of a question's passage.

    Batches have, besides fairseq's keys and ``net_input["src_syntax"]``,

    - ``passage``: the position of the passage's first token in each example, and that after its last, ``(batch, 2)``;
    - ``target``: the positions of the first and the last token of the question's first answer, ``(batch, 2)``; 0 and 0,
      of ``<s>``, unless the window has all of it. Where examples are answerable or not (`labels`), instead 0 if it has,
      else 1, ``(batch,)``.

    Raises:
        ValueError: an example is about a line or a subword that the text has not; names the example.
    """

    def __init__(
        self,
        examples: Sequence[SquadExample],
        *,
        questions: Text,
        passages: Text,
        layout: Layout,
        dictionary: Dictionary,
        labels: bool = False,
    ):
        super().__init__()
        self.examples = examples
        self.questions = questions
        self.passages = passages
        self.layout = layout
        self.dictionary = dictionary
        self.labels = labels
        #: Of each item the example, and the subwords of its passage.
        self.windows: list[tuple[int, range]] = []
        for number, example in enumerate(examples):
            self._check(example)
            width = layout.window - SPECIAL_TOKENS - self._question_length(example)
            of_passage = windows(passages.subwords(example.passage), width, layout.stride)
            self.windows += [(number, window) for window in of_passage]
        self.sizes = np.array(
            [SPECIAL_TOKENS + self._question_length(examples[i]) + len(window) for i, window in self.windows], int
        )

    def _check(self, example: SquadExample) -> None:
        for name, lines, line in (
            ("question", self.questions, example.question),
            ("passage", self.passages, example.passage),
        ):
            if not 0 <= line < len(lines.tokens):
                raise ValueError(
                    f"question {example.id}: expected the {name} in line {line} (from 0), found {len(lines.tokens)} "
                    f"lines of the split in {name}/"
                )
        length = self.passages.subwords(example.passage)
        last = max((last for _, last in example.answers), default=-1)
        if last >= length:
            raise ValueError(
                f"question {example.id}: expected a passage of more than {last} subwords, found {length}: are the "
                "examples of the text in passage/?"
            )

    def _question_length(self, example: SquadExample) -> int:
        return min(self.questions.subwords(example.question), self.layout.max_question)

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        number, window = self.windows[index]
        example = self.examples[number]
        length = self._question_length(example)
        question = self.questions.part(example.question, range(length))
        passage = self.passages.part(example.passage, window)
        before = self.dictionary.bos(), self.dictionary.eos()
        parts = (passage, question) if self.layout.passage_first else (question, passage)
        tokens = [
            part for special, (of, _) in zip(before, parts, strict=True) for part in (torch.tensor([special]), of)
        ]
        first = 1 if self.layout.passage_first else length + SPECIAL_TOKENS - 1
        start, end = example.answers[0] if example.answers else (-1, -1)
        answered = start in window and end in window
        shift = first - window.start
        item = {
            "id": index,
            "tokens": torch.cat(tokens),
            "passage": (first, first + len(window)),
            "target": int(not answered) if self.labels else (start + shift, end + shift) if answered else (0, 0),
        }
        if self.passages.features:
            item["syntax"] = compose([segment for _, segment in parts])
        return item

    def collater(self, samples: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a batch, padded on the right."""
        if not samples:
            return {}
        pad = self.dictionary.pad()
        tokens = data_utils.collate_tokens([sample["tokens"] for sample in samples], pad, left_pad=False)
        lengths = torch.tensor([len(sample["tokens"]) for sample in samples])
        net_input: dict[str, Any] = {"src_tokens": tokens, "src_lengths": lengths}
        if "syntax" in samples[0]:
            net_input["src_syntax"] = SyntaxBatch.collate([sample["syntax"] for sample in samples], tokens.ne(pad))
        return {
            "id": torch.tensor([sample["id"] for sample in samples]),
            "nsentences": len(samples),
            "ntokens": int(lengths.sum()),
            "net_input": net_input,
            "passage": torch.tensor([sample["passage"] for sample in samples]),
            "target": torch.tensor([sample["target"] for sample in samples]),
        }

    def num_tokens(self, index: int) -> int:
        return int(self.sizes[index])

    def num_tokens_vec(self, indices: np.ndarray) -> np.ndarray:
        sizes: np.ndarray = self.sizes[indices]
        return sizes

    def size(self, index: int) -> int:
        return int(self.sizes[index])

    def ordered_indices(self) -> np.ndarray:
        """Return a random order, sorted by length."""
        indices = np.random.permutation(len(self))
        ordered: np.ndarray = indices[np.argsort(self.sizes[indices], kind="stable")]
        return ordered

    def batch_by_size(self, indices: np.ndarray, *args: Any, **kwargs: Any) -> list[Any]:
        """As fairseq's, but with all of `indices` in the batches."""
        return keep_last_batch(super().batch_by_size, indices, *args, **kwargs)
