"""Python interface of a trained RoBERTa with syntax: fairseq's, which also parses."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from fairseq import file_utils
from fairseq.data import data_utils
from fairseq.models.roberta import RobertaHubInterface
from fairseq.registry import REGISTRIES
from omegaconf import OmegaConf, open_dict
from torch import Tensor

from fairseq_syntax.checkpoints.safe_loading import naming
from fairseq_syntax.inference.examples import Example, encoder, join_sentences
from fairseq_syntax.inference.hub import load_trained, one_line_each, refuse_unknown
from fairseq_syntax.inference.reader import NewTextOptions, SourceReader, source_reader
from fairseq_syntax.models.roberta_options import option_names
from fairseq_syntax.models.syntax_model import SyntaxModel
from fairseq_syntax.modules.syntax_batch import SyntaxBatch
from syntax_data.errors import InputError
from syntax_data.features.aligned import Settings
from syntax_data.text.subwords import read_markers

#: fairseq's ``--bpe`` by the kind of subwords of the data; for others, text is to be given as subwords.
_BPE = {
    "gpt2": "gpt2",
    "sentencepiece": "sentencepiece",
    "subword_nmt": "subword_nmt",
    "wordpiece": "bert",
}
_PURPOSE = "a RoBERTa with syntax"


class SyntaxRobertaHubInterface(RobertaHubInterface):
    """fairseq's interface, which also parses; heads read states as in training.

    Input is an example of :meth:`read`, or a list of them; or tokens and features of a task's batch. Without features,
    a model that needs some raises :class:`ValueError`, also in fairseq's other methods, which know tokens alone. Of
    these, ``fill_mask`` is for masked LMs. One thread at a time is served.
    """

    def __init__(self, cfg: Any, task: Any, model: Any, new_text: NewTextOptions):
        super().__init__(cfg, task, model)
        self._new_text = new_text
        self._one_thread = threading.RLock()  # parsers are not made for several threads

    def read(self, sentence: str, *more: str, truncate: bool = False) -> Example:
        """Split the sentences of an example into subwords, and parse them if needed.

        Sentences are given in the order of the data's folders: ``input0``, ``input1``; of a choice the context and an
        option. Each is a line as in a file, parsed for itself; it may have several sentences.

        Args:
            truncate: cut the example, also its last ``</s>``, to what the model can read.

        Raises:
            ValueError: there are more or fewer sentences than an example of the task has, or one has a line break.
            SentenceTooLong: the example is longer than the model can read, or than ``--truncate-to`` of its training.
        """
        longest = min(filter(None, (self.model.max_positions(), getattr(self.task.cfg, "truncate_to", None))))
        lines = one_line_each([sentence, *more])
        with self._one_thread:
            reader, encode = self._reader
            reader.restart()  # messages count the sentences of this call
            sentences = reader.read(lines, [encode(line) for line in lines], self.task.source_dictionary)
        return join_sentences(sentences, self.task.example_places, longest=longest, truncate=truncate)

    def encode(self, sentence: str, *addl_sentences: str, **kwargs: Any) -> Tensor:
        """As fairseq's: tokens alone; :class:`ValueError` if the model needs parses."""
        if self.model.syntax_features:
            raise ValueError("the model needs the parses of its input, and token ids have none: read(sentence, …)")
        tokens: Tensor = super().encode(sentence, *addl_sentences, **kwargs)
        return tokens

    def extract_features(
        self,
        tokens: Tensor | Example | Sequence[Example],
        return_all_hiddens: bool = False,
        src_syntax: Mapping[str, Tensor] | None = None,
    ) -> Any:
        """Return the encoder's output, ``(batch, n, embed_dim)``; or all layers' states.

        Args:
            tokens: examples, or tokens, ``(n,)`` or ``(batch, n)``.
            src_syntax: features of tokens, in their shape.

        Raises:
            ValueError: features are missing, or there are more tokens than the model has positions.
        """
        x, extra = self.model(
            **self._batch(tokens, src_syntax), features_only=True, return_all_hiddens=return_all_hiddens
        )
        return [state.transpose(0, 1) for state in extra["inner_states"]] if return_all_hiddens else x

    def predict(
        self,
        head: str,
        tokens: Tensor | Example | Sequence[Example],
        return_logits: bool = False,
        src_syntax: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Return log-probabilities, or logits, of a head, ``(batch, classes)``.

        ``model.task.label_names`` has the names of the classes. A head of one output has its logits alone, ``(batch,
        1)``: the number that is predicted, or of a choice the score of each option. See :meth:`extract_features`.

        Raises:
            ValueError: the model has no such head.
        """
        if head not in (heads := self.model.classification_heads):
            raise ValueError(f"expected a head of the model ({', '.join(heads) or 'it has none'}), found {head!r}")
        logits: Tensor = self.model(**self._batch(tokens, src_syntax), classification_head_name=head)[0]
        return logits if return_logits or logits.shape[1] == 1 else F.log_softmax(logits, dim=-1)

    @cached_property
    def _reader(self) -> tuple[SourceReader, Callable[[str], str]]:
        """The reader of new text, and the function that splits it. The first time, it loads the parser."""
        if not getattr(self.task, "example_places", ()):
            tasks = "syntax_sentence_prediction, syntax_sentence_ranking or syntax_masked_lm"
            raise ValueError(f"expected a model of --task {tasks}, found one of {type(self.task).__name__}")
        encoder_json = getattr(self.cfg.bpe, "gpt2_encoder_json", None)
        path = None if encoder_json is None else file_utils.cached_path(encoder_json)  # fairseq's default is a URL
        options = replace(self._new_text, gpt2_encoder_json=path)
        reader = source_reader(options, self.model.syntax_features, self.task.texts)
        return reader, encoder(self.bpe, read_markers(reader.settings.markers))

    def _batch(
        self, tokens: Tensor | Example | Sequence[Example], src_syntax: Mapping[str, Tensor] | None
    ) -> dict[str, Any]:
        """Arguments of the model, with the features that it needs."""
        if isinstance(tokens, Tensor):
            rows = tokens.unsqueeze(0) if tokens.dim() == 1 else tokens
        else:
            examples = [tokens] if isinstance(tokens, Example) else tokens
            if not examples or not all(isinstance(example, Example) for example in examples):
                raise ValueError("expected examples, as read(sentence, …) returns them, or tokens")
            rows = data_utils.collate_tokens([e.tokens for e in examples], self.task.source_dictionary.pad())
            if self.model.syntax_features:
                lengths = torch.tensor([len(e) for e in examples])
                real = torch.arange(rows.shape[1]) < lengths.unsqueeze(1)
                src_syntax = SyntaxBatch.collate([e.features for e in examples], real)
        if rows.shape[1] > (most := self.model.max_positions()):
            raise ValueError(f"expected at most {most} tokens, found {rows.shape[1]}")
        syntax = None
        if src_syntax is not None:
            shaped = {name: feature.view_as(rows) for name, feature in src_syntax.items() if feature.numel()}
            syntax = SyntaxBatch(shaped).to(self.device)
        return {"src_tokens": rows.to(self.device), "src_syntax": syntax}


def from_pretrained(
    model_name_or_path: str,
    checkpoint_file: str,
    data_name_or_path: str,
    *,
    parser: str | None = None,
    parser_models: str | None = None,
    parser_device: str | None = None,
    source_lang: str | None = None,
    **kwargs: Any,
) -> SyntaxRobertaHubInterface:
    """See :meth:`fairseq_syntax.models.roberta.SyntaxRobertaModel.from_pretrained`."""
    path, cfg, task, (model, *others) = load_trained(
        _PURPOSE, model_name_or_path, checkpoint_file, data_name_or_path, load_checkpoint_heads=True, **kwargs
    )
    if others or not isinstance(model, SyntaxModel):
        found = "several" if others else f"a {type(model).__name__}"
        raise InputError(path, None, f"expected one model of syntax_roberta, found {found}")
    if "bpe" not in kwargs and not getattr(cfg.bpe, "_name", None):
        _set_bpe(cfg, task, kwargs)
    refuse_unknown(kwargs, cfg, option_names())
    with naming(path, _PURPOSE):
        new_text = NewTextOptions(task.cfg.data, parser, parser_models, parser_device, source_lang=source_lang)
        return SyntaxRobertaHubInterface(cfg, task, model, new_text)


def _set_bpe(cfg: Any, task: Any, given: Mapping[str, Any]) -> None:
    """Have text split as the data of a task was, where a checkpoint does not say how."""
    texts = getattr(task, "texts", ())
    split = texts[0].recorded_split()[1] if texts else None
    kind, _, mark = Settings(**split.settings).subwords.partition(":") if split else ("", "", "")
    if name := _BPE.get(kind):
        options = REGISTRIES["bpe"]["dataclass_registry"][name].__dataclass_fields__
        given = {**({"bpe_separator": mark} if mark else {}), **given}
        with open_dict(cfg):
            cfg.bpe = OmegaConf.create({"_name": name, **{key: given[key] for key in given.keys() & options.keys()}})
