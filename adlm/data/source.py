"""What a source of documents is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from adlm.data.vocab import clean


class Meter:
    """How many bytes of its files a reader has behind it.

    Within a file it counts the text, at most the file's size; so of packed files it is right at
    their ends.
    """

    def __init__(self) -> None:
        self.done = 0

    def through(
        self, paths: Iterable[Path], read: Callable[[Path], Iterator[str]]
    ) -> Iterator[str]:
        """Yield the documents of the files, one file after the other, and count."""
        before = 0
        for path in paths:
            size, seen = path.stat().st_size, 0
            for text in read(path):
                seen += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
                self.done = before + min(seen, size)
                yield text
            before += size


@dataclass(frozen=True)
class TextSource:
    """One split of a corpus.

    Example:
        >>> source = TextSource("two lines", "train", lambda: iter(["a", " ", "b"]), "x")
        >>> list(source.documents())
        ['a', 'b']
    """

    name: str
    split: str
    read: Callable[[], Iterator[str]]
    fingerprint: str  # changes whenever a document does
    size: int = 0  # bytes of the files behind it, for progress; 0 = unknown
    meter: Meter = field(default_factory=Meter, compare=False)  # how many of them are read
    lacking: str = ""  # what to say where it has no document

    def documents(self) -> Iterator[str]:
        """Yield the documents that have any text."""
        return (clean(text) for text in self.read() if text.strip())
