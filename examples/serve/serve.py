"""Translation over HTTP.

POST /translate gives the translation, the parse and the gates; GET / is a page for people.

    python examples/serve/serve.py data-bin/en-de --path checkpoints/gated/checkpoint_best.pt \
        --tokenizer moses --bpe subword_nmt --bpe-codes codes
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import math
import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from limits import BACKLOG, BodyLimit, BoundedProtocol
from pydantic import BaseModel, ConfigDict, Field

from fairseq_syntax.inference.hub import SentenceTooLong, SyntaxHubInterface
from fairseq_syntax.models.transformer import SyntaxTransformerModel
from syntax_data.commands.main import positive
from syntax_data.features.sentence import AlignedSentence
from syntax_data.trees.brackets import format_brackets
from syntax_data.trees.tree import DependencyTree

logger = logging.getLogger("serve")

PAGE = Path(__file__).with_name("index.html")
#: Options that are fairseq-interactive's.
AS_INTERACTIVES = ("tokenizer", "bpe", "bpe_codes", "sentencepiece_model", "parser", "parser_models", "parser_device")
#: JSON escapes make of a character twelve at most.
BYTES_A_CHARACTER = 12


class Source(BaseModel):
    """A request for a translation."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, description="one sentence, raw text")
    attention: bool = Field(False, description="also return the attention of each head")


class AttentionTooLarge(ValueError):
    """The attention of a sentence would be more numbers than are sent."""


class Translator:
    """Answers requests with one model, those that wait together, up to a batch.

    Args:
        hub: the model; only :meth:`run` calls it, one call at a time.
        beam: beam size.
        max_batch: sentences translated together.
        max_waiting: requests that may wait; further ones are refused at once.
        max_attention: numbers of attention that one answer may hold.
    """

    def __init__(self, hub: SyntaxHubInterface, *, beam: int, max_batch: int, max_waiting: int, max_attention: int):
        self.hub = hub
        self.beam = beam
        self.max_batch = max_batch
        self.max_waiting = max_waiting
        heads = sum(attention.num_heads for attention in hub.models[0].syntax_attentions.values())
        self.longest_attention = math.isqrt(max_attention // max(heads, 1))
        #: In the order in which they came, and where their answers go.
        self.waiting: dict[asyncio.Future[bytes], Source] = {}
        self.arrived = asyncio.Event()

    async def run(self) -> None:
        """Translates what comes, for ever."""
        while True:
            await self.arrived.wait()
            batch = dict(islice(self.waiting.items(), self.max_batch))
            for future in batch:
                del self.waiting[future]
            if not self.waiting:
                self.arrived.clear()
            answers = await asyncio.to_thread(self.answer, [*batch.values()])
            for future, answer in zip(batch, answers, strict=True):
                if future.done():  # who waited too long is gone
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    async def ask(self, source: Source, timeout: float, gone: Awaitable[None]) -> bytes:
        """The answer, as JSON.

        Raises :class:`asyncio.QueueFull`, :class:`TimeoutError`, :class:`ConnectionError` where the client is `gone`
        before, or what went wrong.
        """
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        leaving = asyncio.ensure_future(gone)
        try:
            if len(self.waiting) >= self.max_waiting:
                raise asyncio.QueueFull
            self.waiting[answer] = source
            self.arrived.set()
            await asyncio.wait([answer, leaving], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            raise ConnectionError if leaving.done() else TimeoutError
        finally:
            self.waiting.pop(answer, None)
            answer.cancel()
            leaving.cancel()

    def answer(self, sources: list[Source]) -> list[bytes | Exception]:
        """Answers as JSON, or errors; only with attention if that is asked for."""
        answers: dict[int, bytes | Exception] = {}
        groups: dict[bool, list[int]] = {False: [], True: []}
        for i, source in enumerate(sources):
            try:
                self.check(source)
                groups[source.attention].append(i)
            except Exception as error:
                answers[i] = error
        for group in groups.values():
            answers.update(zip(group, self.translate_safely([sources[i] for i in group]), strict=True))
        return [answers[i] for i in range(len(sources))]

    def check(self, source: Source) -> None:
        """Raises :class:`AttentionTooLarge`."""
        if source.attention and (length := len(self.hub.encode(source.text))) > self.longest_attention:
            raise AttentionTooLarge(
                f"attention: expected at most {self.longest_attention} subwords with </s>, found {length}"
            )

    def translate_safely(self, sources: list[Source]) -> list[bytes | Exception]:
        """Answers, or errors; where a batch fails, each sentence is tried alone."""
        try:
            return [*self.translate(sources)]
        except Exception as error:
            if len(sources) > 1:
                return [answer for source in sources for answer in self.translate_safely([source])]
            return [error]

    def translate(self, sources: list[Source]) -> list[bytes]:
        """Answers, as JSON, to requests of which all or none want attention."""
        if not sources:
            return []
        batch = self.hub.read([source.text for source in sources])
        hypotheses = self.hub.generate(batch, beam=self.beam)
        analyses = self.hub.analyse(batch, ("gates", "attention") if sources[0].attention else ("gates",))
        model = self.hub.models[0]
        answers = []
        for i, source in enumerate(sources):
            answer = {
                "text": source.text,
                "translation": self.hub.decode(hypotheses[i][0]["tokens"]),
                "score": hypotheses[i][0]["score"].item(),
                "subwords": [self.hub.src_dict[token] for token in batch.tokens[i].tolist()],
                **parse_of(batch.sentences[i]),
                "layers": list(model.syntax_attentions),
                "masks": list(model.encoder.bias_builder.names),
                "gates": analyses[i]["gates"].astype(float).round(4).tolist() if "gates" in analyses[i] else None,
            }
            encoded = encode(answer)
            if source.attention:
                encoded = f'{encoded[:-1]},"attention":{encode_rows(analyses[i]["attention"].astype(float).round(3))}}}'
            answers.append(encoded.encode())
        return answers


def encode(value: Any) -> str:
    """JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode_rows(array: np.ndarray) -> str:
    """JSON, row by row: while :mod:`json` is at work, no other thread is."""
    return encode(array.tolist()) if array.ndim == 1 else f"[{','.join(map(encode_rows, array))}]"


def parse_of(sentence: AlignedSentence) -> dict[str, Any]:
    """A sentence's parse: bracketed trees, words, and heads from 1 (0: the root)."""
    trees, tree = sentence.trees, sentence.dependencies
    return {
        "words": sentence.words,
        "trees": format_brackets(trees).strip() if isinstance(trees, list) else None,
        "heads": tree.heads if isinstance(tree, DependencyTree) else None,
        "deprels": tree.deprel if isinstance(tree, DependencyTree) else None,
    }


def make_app(translator: Translator, *, max_chars: int, timeout: float) -> FastAPI:
    """The application.

    Args:
        max_chars: the longest text that is translated.
        timeout: seconds after which a request is given up.
    """

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        task = asyncio.create_task(translator.run())
        yield
        task.cancel()

    app = FastAPI(title="fairseq-syntax", lifespan=running)
    app.add_middleware(BodyLimit, longest=BYTES_A_CHARACTER * max_chars + 1000)
    html = PAGE.read_text(encoding="utf-8")

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(html)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        # Without what was sent, which JSON cannot always hold.
        return JSONResponse({"detail": "; ".join(f"{e['loc'][-1]}: {e['msg']}" for e in error.errors())}, 422)

    @app.post("/translate")
    async def translate(source: Source, request: Request) -> Response:
        async def gone() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        if len(source.text) > max_chars:
            raise HTTPException(422, f"expected at most {max_chars} characters, found {len(source.text)}")
        if len(source.text.strip().splitlines()) != 1:
            raise HTTPException(422, "expected one line of text")
        try:
            return Response(await translator.ask(source, timeout, gone()), media_type="application/json")
        except asyncio.QueueFull:
            raise HTTPException(503, "too many requests are waiting; try again later") from None
        except TimeoutError:
            raise HTTPException(504, f"there was no translation after {timeout:g} seconds") from None
        except ConnectionError:
            return Response(status_code=499)  # to nobody
        except (AttentionTooLarge, SentenceTooLong) as error:
            raise HTTPException(422, str(error)) from None
        except Exception:
            logger.exception("%r", source.text)
            raise HTTPException(500, "the translation failed; the server's log says why") from None

    return app


def seconds(text: str) -> float:
    """A time on the command line."""
    if not 0 < float(text) < math.inf:
        raise argparse.ArgumentTypeError(f"expected more than 0 seconds, found {text!r}")
    return float(text)


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="the data-bin: dictionaries and the features' signature")
    parser.add_argument("--path", required=True, metavar="FILE", help="the model's checkpoint")
    for name in AS_INTERACTIVES:
        parser.add_argument(f"--{name.replace('_', '-')}", help="as fairseq-interactive's")
    parser.add_argument("--beam", type=positive, default=5, help="beam size (default: 5)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine alone)")
    parser.add_argument("--port", type=int, default=8000, help="default: 8000")
    parser.add_argument("--max-chars", type=positive, default=500, help="longest text in characters (default: 500)")
    parser.add_argument("--max-batch", type=positive, default=16, help="sentences translated together (default: 16)")
    parser.add_argument("--max-waiting", type=positive, default=1000, help="requests that may wait (default: 1000)")
    parser.add_argument(
        "--max-attention",
        type=positive,
        default=250_000,
        help="numbers of attention in an answer, layers × heads × subwords², six bytes each (default: 250000)",
    )
    parser.add_argument(
        "--max-connections",
        type=positive,
        default=500,
        help="connections at a time; of file descriptors (ulimit -n) there must be 500 more (default: 500)",
    )
    parser.add_argument("--timeout", type=seconds, default=60, help="seconds for a translation (default: 60)")
    parser.add_argument(
        "--client-timeout",
        type=seconds,
        default=30,
        help="seconds in which a client must have sent its request, or fetched its answer (default: 30)",
    )
    parser.add_argument(
        "--grace", type=seconds, default=10, help="seconds for what is under way when the server ends (default: 10)"
    )
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Loads the model and its parser, and serves."""
    args = get_parser().parse_args(argv)
    chosen = {
        name: os.path.abspath(value) if name in ("bpe_codes", "sentencepiece_model") else value
        for name in AS_INTERACTIVES
        if (value := getattr(args, name)) is not None
    }
    folder, checkpoint = os.path.split(os.path.abspath(args.path))
    hub = SyntaxTransformerModel.from_pretrained(folder, checkpoint, os.path.abspath(args.data), **chosen)
    if not isinstance(hub.models[0], SyntaxTransformerModel) or not hub.task.syntax_features:
        raise SystemExit(f"{args.path}: expected a model that reads parses or words, found another one")
    hub.eval()
    if torch.cuda.is_available() and not args.cpu:
        hub.cuda()
    translator = Translator(
        hub,
        beam=args.beam,
        max_batch=args.max_batch,
        max_waiting=args.max_waiting,
        max_attention=args.max_attention,
    )
    translator.translate([Source(text="Hello .")])  # what cannot be loaded shows now
    logging.getLogger("fairseq").setLevel(logging.WARNING)  # which would log four lines a batch
    BoundedProtocol.most = args.max_connections
    BoundedProtocol.client_seconds = args.client_timeout
    BoundedProtocol.server_seconds = args.timeout + args.client_timeout
    uvicorn.run(
        make_app(translator, max_chars=args.max_chars, timeout=args.timeout),
        host=args.host,
        port=args.port,
        log_level="warning",
        loop="asyncio",  # as the limit of connections expects
        http=BoundedProtocol,
        ws="none",
        backlog=BACKLOG,
        timeout_graceful_shutdown=args.grace,
    )


if __name__ == "__main__":
    main()
