"""What a record of prompts and answers holds.

A record has `prompt` and `answer`, or `messages`, a list of {role, content} that ends with the
assistant's: that one's content is the answer, all before it the prompt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adlm.data import files
from adlm.errors import UserError

ASSISTANT = "assistant"


def part_of_pair(record: Any, part: str, where: str) -> str:
    """Return the `prompt` or the `answer` of a record, or `both` as one text.

    Example:
        >>> part_of_pair({"prompt": "2 + 2 =", "answer": " 4"}, "both", "a.jsonl line 1")
        '2 + 2 = 4'
        >>> chat = {"messages": [{"role": "user", "content": "Hi"},
        ...     {"role": "assistant", "content": "Hello!"}]}
        >>> [part_of_pair(chat, part, "a.jsonl line 1") for part in ("prompt", "answer")]
        ['user: Hi\\nassistant: ', 'Hello!']
    """
    prompt, answer = prompt_of(record, where), answer_of(record, where)
    return {"prompt": prompt, "answer": answer, "both": prompt + answer}[part]


def prompt_of(record: Any, where: str) -> str:
    """Return a record's prompt; a chat is written as lines `role: content` up to who answers.

    Example:
        >>> prompt_of({"messages": [{"role": "user", "content": "Hi"}]}, "a.jsonl line 1")
        'user: Hi\\nassistant: '
    """
    if (said := messages_of(record, where)) is None:
        return text_under("prompt", record, where)
    before = said[:-1] if said[-1]["role"] == ASSISTANT else said
    return "".join(f"{m['role']}: {m['content']}\n" for m in before) + f"{ASSISTANT}: "


def answer_of(record: Any, where: str) -> str:
    """Return a record's answer."""
    if (said := messages_of(record, where)) is None:
        return text_under("answer", record, where)
    if said[-1]["role"] != ASSISTANT or not said[-1]["content"].strip():
        raise UserError(f"{where} has no answer: its last message must be the assistant's")
    return said[-1]["content"]


def messages_of(record: Any, where: str) -> list[dict[str, str]] | None:
    """Return the messages of a chat, None where the record is none."""
    if not isinstance(record, dict) or "messages" not in record:
        return None
    said = record["messages"]
    if not (isinstance(said, list) and said and all(map(is_message, said))):
        raise UserError(f"{where}: messages must be a list of objects with role and content")
    return said


def is_message(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(value.get(name), str) for name in ("role", "content")
    )


def text_under(name: str, record: Any, where: str) -> str:
    """Return the text that a record has under a name, or raise UserError."""
    if not isinstance(record, dict):
        raise UserError(f"{where} is not an object with a prompt and an answer")
    text = record.get(name)
    if not isinstance(text, str) or not text.strip():
        raise UserError(f"{where} has no {name}: it has {', '.join(map(str, record)) or 'nothing'}")
    return text


def read_prompts(path: Path) -> list[tuple[str, str]]:
    """Return (file and line, prompt) of each record of a jsonl or csv file."""
    if not path.is_file():
        raise UserError(f"there is no file {path} with prompts")
    found = [(where, prompt_of(record, where)) for where, record in files.records(path)]
    if not found:
        raise UserError(f"{path} has no prompts")
    return found
