"""Texts to token ids in several processes; run as a program, this is one of them.

Documents are read by the process that asks, in their order; which of them share a call depends on
the documents alone. A short corpus is not worth starting processes for: threads encode it.

A process reads frames (8 bytes of length, then msgpack) from its standard input, the first of them
its tokenizer, and answers each on its standard output. When the asking process is gone, even by
kill -9, its input ends and so does it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain, islice
from queue import SimpleQueue
from typing import IO, Any, NamedTuple

import msgspec
import numpy as np

from adlm.data.vocab import Vocab
from adlm.errors import RunStopped
from adlm.system import own_group

CHUNK = 1 << 18  # characters handed to the tokenizer at once; part of no result
FEW = 32  # chunks: what has fewer is tokenised by threads of this process


class Encoded(NamedTuple):
    """Some documents as ids."""

    ids: np.ndarray  # (total,) uint16 or uint32; each document ends with EOS
    counts: np.ndarray  # (N,) int64 ids of each document, its EOS among them


def encode(vocab: Vocab, texts: list[str]) -> Encoded:
    """Encode documents, each with an EOS behind it.

    Example:
        >>> from adlm.data.vocab import byte_vocab
        >>> ids, counts = encode(byte_vocab(), ["ab", "c"])
        >>> ids[[2, 4]].tolist(), counts.tolist()
        ([256, 256], [3, 2])
    """
    found = vocab.encode_many(texts)
    counts = np.array([len(ids) + 1 for ids in found], dtype=np.int64)
    out = np.full(counts.sum(), vocab.eos, dtype=dtype_of(vocab))
    for ids, end in zip(found, np.cumsum(counts), strict=True):
        out[end - len(ids) - 1 : end - 1] = ids
    return Encoded(out, counts)


def dtype_of(vocab: Vocab) -> np.dtype:
    """Return the narrowest kind of number that holds every id."""
    return np.dtype(np.uint16 if vocab.size <= 1 << 16 else np.uint32)


def encode_stream(
    documents: Iterator[str], vocab: Vocab, workers: int
) -> Generator[tuple[list[str], Encoded], None, None]:
    """Yield documents with their ids, in the documents' order; few of them wait in memory."""
    count = workers or os.cpu_count() or 1
    every = chunks(documents)
    first = list(islice(every, FEW))
    with ExitStack() as stack:
        work: Callable[[list[str]], Encoded] = lambda texts: encode(vocab, texts)  # noqa: E731
        if len(first) == FEW and count > 1:
            work = stack.enter_context(Processes(vocab, count))
        pool = stack.enter_context(ThreadPoolExecutor(count))
        waiting: deque[tuple[list[str], Future[Encoded]]] = deque()
        try:
            for texts in chain(first, every):
                waiting.append((texts, pool.submit(work, texts)))
                if len(waiting) > 2 * count:
                    done, future = waiting.popleft()
                    yield done, future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, future.result()
        finally:
            for _, future in waiting:
                future.cancel()


def chunks(documents: Iterator[str]) -> Iterator[list[str]]:
    """Yield lists of documents with about CHUNK characters."""
    held: list[str] = []
    size = 0
    for text in documents:
        held.append(text)
        size += len(text)
        if size >= CHUNK:
            yield held
            held, size = [], 0
    if held:
        yield held


class Processes:
    """Encoding processes, each asked by one thread at a time."""

    def __init__(self, vocab: Vocab, count: int):
        self.dtype = dtype_of(vocab)
        self.free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        alone = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}  # a process is one core
        words = [sys.executable, "-m", "adlm.data.encode"]
        pipe = subprocess.PIPE
        self.all = [
            subprocess.Popen(words, stdin=pipe, stdout=pipe, env=alone, **own_group())
            for _ in range(count)
        ]
        for process in self.all:
            special = (vocab.mask, vocab.bos, vocab.eos, vocab.pad)
            write(process.stdin, (vocab.tokenizer.to_str(), special))
            self.free.put(process)

    def __call__(self, texts: list[str]) -> Encoded:
        process = self.free.get()
        try:
            write(process.stdin, texts)
            answer = read(process.stdout)
        except OSError:
            answer = None
        finally:
            self.free.put(process)
        if answer is None:
            code = process.wait()
            raise RunStopped(
                f"a process that tokenises has ended (code {code}): try again, with fewer "
                "--data.workers where memory ran out"
            )
        ids, counts = answer
        return Encoded(np.frombuffer(ids, self.dtype), np.frombuffer(counts, np.int64))

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.all:
            process.kill()  # it has nothing of its own to save
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    stream.close()


def write(stream: IO[bytes] | None, what: object) -> None:
    """Write a frame."""
    assert stream is not None
    body = msgspec.msgpack.encode(what)
    stream.write(len(body).to_bytes(8, "little"))
    stream.write(body)
    stream.flush()


def read(stream: IO[bytes] | None) -> Any:
    """Read a frame; None where the stream has ended."""
    assert stream is not None
    size = int.from_bytes(stream.read(8), "little")
    body = stream.read(size)
    return msgspec.msgpack.decode(body) if size and len(body) == size else None


def main() -> None:
    """Answer chunks of texts until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the asking process decides
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    if (first := read(source)) is None:
        return
    text, special = first
    vocab = Vocab.from_text(text, *special)
    try:
        while (texts := read(source)) is not None:
            ids, counts = encode(vocab, texts)
            write(sink, (ids.tobytes(), counts.tobytes()))
    except BrokenPipeError:
        os._exit(0)  # nobody is left to be told


if __name__ == "__main__":
    main()
