"""Translation over HTTP: POST /translate gives the translation, the parse and the gates; GET / is a page for people.

    python examples/serve/serve.py data-bin/en-de --path checkpoints/gated/checkpoint_best.pt \
        --tokenizer moses --bpe subword_nmt --bpe-codes codes
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from pydantic import BaseModel, Field

from fairseq_syntax.hub import SentenceTooLong, SyntaxHubInterface
from fairseq_syntax.models.gated_syntax_transformer import GatedSyntaxTransformerModel
from fairseq_syntax.sentence import AlignedSentence
from fairseq_syntax.trees import DependencyTree, format_trees

logger = logging.getLogger("serve")

PAGE = Path(__file__).with_name("index.html")
#: JSON escapes make of a character twelve at most.
BYTES_A_CHARACTER = 12


class Source(BaseModel):
    """What is asked for."""

    text: str = Field(min_length=1, description="one sentence, raw text")
    attention: bool = Field(False, description="whether the attention of each head is wanted, too")


@dataclass
class Waiting:
    """A request, and where its answer goes."""

    source: Source
    answer: asyncio.Future[dict[str, Any]]


class Translator:
    """Answers requests with one model, as many at a time as are waiting, up to a batch.

    Args:
        hub: the model; only :meth:`run` calls it, one call at a time.
        beam: beam size.
        max_batch: how many sentences are translated together.
        max_waiting: how many requests may wait; further ones are refused at once.
    """

    def __init__(self, hub: SyntaxHubInterface, *, beam: int, max_batch: int, max_waiting: int):
        self.hub = hub
        self.beam = beam
        self.max_batch = max_batch
        self.waiting: asyncio.Queue[Waiting] = asyncio.Queue(max_waiting)

    async def run(self) -> None:
        """Translates what comes, for ever."""
        while True:
            batch = [await self.waiting.get()]
            while len(batch) < self.max_batch and not self.waiting.empty():
                batch.append(self.waiting.get_nowait())
            batch = [one for one in batch if not one.answer.done()]  # who waited too long is gone
            answers = await asyncio.to_thread(self.translate_safely, [one.source for one in batch])
            for one, answer in zip(batch, answers, strict=True):
                if one.answer.done():
                    continue
                if isinstance(answer, Exception):
                    one.answer.set_exception(answer)
                else:
                    one.answer.set_result(answer)

    async def ask(self, source: Source, timeout: float) -> dict[str, Any]:
        """The answer. Raises :class:`asyncio.QueueFull`, :class:`TimeoutError` or what went wrong."""
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.waiting.put_nowait(Waiting(source, answer))
        return await asyncio.wait_for(answer, timeout)

    def translate_safely(self, sources: list[Source]) -> list[dict[str, Any] | Exception]:
        """Answers; where a batch fails, each of its sentences is tried alone, and what fails is its answer."""
        try:
            return [*self.translate(sources)]
        except Exception as error:
            if len(sources) > 1:
                return [answer for source in sources for answer in self.translate_safely([source])]
            return [error]

    def translate(self, sources: list[Source]) -> list[dict[str, Any]]:
        """Answers, as JSON."""
        if not sources:
            return []
        tokens = self.hub.read([source.text for source in sources])
        hypotheses = self.hub.generate(tokens, beam=self.beam)
        contents = ("gates", "attention") if any(source.attention for source in sources) else ("gates",)
        analyses = self.hub.analyse(tokens, contents)
        model = self.hub.models[0]
        answers = []
        for i, source in enumerate(sources):
            answer = {
                "text": source.text,
                "translation": self.hub.decode(hypotheses[i][0]["tokens"]),
                "score": hypotheses[i][0]["score"].item(),
                "subwords": [self.hub.src_dict[token] for token in tokens[i].tolist()],
                **parse_of(tokens.sentences[i]),
                "layers": list(model.guided),
                "masks": list(model.encoder.masks.names),
                "gates": analyses[i]["gates"].astype(float).round(4).tolist() if "gates" in analyses[i] else None,
            }
            if source.attention:
                answer["attention"] = analyses[i]["attention"].astype(float).round(3).tolist()
            answers.append(answer)
        return answers


def parse_of(sentence: AlignedSentence) -> dict[str, Any]:
    """A sentence's parse as JSON: bracketed trees, and words with their heads (from 1; 0 is the root)."""
    trees, tree = sentence.trees, sentence.dependencies
    return {
        "words": sentence.words,
        "trees": format_trees(trees).strip() if isinstance(trees, list) else None,
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

    @app.middleware("http")
    async def bounded(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        longest = BYTES_A_CHARACTER * max_chars + 1000
        length = request.headers.get("content-length", "")
        if request.method == "POST" and not (length.isdecimal() and int(length) <= longest):
            return JSONResponse({"detail": f"expected a body of known length, at most {longest} bytes"}, 413)
        return await call_next(request)

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        # Without what was sent, which JSON cannot always hold.
        return JSONResponse({"detail": "; ".join(f"{e['loc'][-1]}: {e['msg']}" for e in error.errors())}, 422)

    @app.post("/translate")
    async def translate(source: Source) -> JSONResponse:
        if len(source.text) > max_chars:
            raise HTTPException(422, f"expected at most {max_chars} characters, found {len(source.text)}")
        if "\n" in source.text.strip() or not source.text.strip():
            raise HTTPException(422, "expected one line of text")
        try:
            return JSONResponse(await translator.ask(source, timeout))
        except asyncio.QueueFull:
            raise HTTPException(503, "too many requests are waiting; try again later") from None
        except TimeoutError:
            raise HTTPException(504, f"there was no translation after {timeout:g} seconds") from None
        except SentenceTooLong as error:
            raise HTTPException(422, str(error)) from None
        except Exception:
            logger.exception("%r", source.text)
            raise HTTPException(500, "the translation failed; the server's log says why") from None

    return app


def get_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="the data-bin: dictionaries and the features' signature")
    parser.add_argument("--path", required=True, metavar="FILE", help="the model's checkpoint")
    for name in ("tokenizer", "bpe", "bpe-codes", "sentencepiece-model", "parser", "stanza-dir", "parser-device"):
        parser.add_argument(f"--{name}", help="as fairseq-interactive's")
    parser.add_argument("--beam", type=int, default=5, help="beam size (default: 5)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine alone)")
    parser.add_argument("--port", type=int, default=8000, help="default: 8000")
    parser.add_argument("--max-chars", type=int, default=500, help="longest text in characters (default: 500)")
    parser.add_argument("--max-batch", type=int, default=16, help="sentences translated together (default: 16)")
    parser.add_argument("--max-waiting", type=int, default=1000, help="requests that may wait (default: 1000)")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a request (default: 60)")
    parser.add_argument("--cpu", action="store_true", help="use no GPU")
    return parser


def main(argv: list[str] | None = None) -> None:
    """Loads the model and its parser, and serves."""
    args = get_parser().parse_args(argv)
    chosen = {
        name: os.path.abspath(value) if name in ("bpe_codes", "sentencepiece_model") else value
        for name in ("tokenizer", "bpe", "bpe_codes", "sentencepiece_model", "parser", "stanza_dir", "parser_device")
        if (value := getattr(args, name)) is not None
    }
    folder, checkpoint = os.path.split(os.path.abspath(args.path))
    hub = GatedSyntaxTransformerModel.from_pretrained(folder, checkpoint, os.path.abspath(args.data), **chosen)
    if not isinstance(hub.models[0], GatedSyntaxTransformerModel):
        raise SystemExit(f"{args.path}: expected a gated_syntax_transformer, found a {type(hub.models[0]).__name__}")
    hub.eval()
    if torch.cuda.is_available() and not args.cpu:
        hub.cuda()
    translator = Translator(hub, beam=args.beam, max_batch=args.max_batch, max_waiting=args.max_waiting)
    translator.translate([Source(text="Hello .")])  # what cannot be loaded shows now
    app = make_app(translator, max_chars=args.max_chars, timeout=args.timeout)
    uvicorn.run(app, host=args.host, port=args.port, log_level="warning")


if __name__ == "__main__":
    main()
