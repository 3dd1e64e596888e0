"""What a reply is: text that counts, or the failure that it is, with what it cost.

    nothing but white space             empty
    an unfinished reasoning block       truncated
    ended at its ceiling                truncated for a proposal, or JSON; other solutions are kept unless told not to
    withheld by a content filter        provider: a failure, not an answer, and asked again like one
    JSON that is not of its schema      malformed
    reasoning, then text                the text
    one code fence, one code span       what is in it
    NONE, also quoted, with a full stop a proposal that declines

Total: whatever the text is, there is a value or a CallFailed, nothing else.
"""

from __future__ import annotations

import re

from agentdescent.ports import CallFailed
from agentdescent_adapters.providers.model import Reply

_OPENING = re.compile(r"\s*<(think|thinking|thought|reasoning)>", re.I)
_CLOSING = re.compile(r"</(think|thinking|thought|reasoning)>", re.I)
_ANY_OPENING = re.compile(r"<(?:think|thinking|thought|reasoning)>", re.I)
_FENCE = re.compile(r"(`{3,}|~{3,})[^\n`~]*\n(.*?)\n?[ \t]*\1", re.S)
_SPAN = re.compile(r"`([^`\n]+)`")
_AROUND = "\"'`*_“”‘’«»() \t\r\n"


def without_reasoning(text: str) -> str | None:
    """What follows the reasoning that a reply begins with; None when that does not end.

    Only what a reply begins with: an evolved text may well speak of such blocks. One whose opening was part of the
    prompt ends all the same, at the first closing.
    """
    while True:
        opening = _OPENING.match(text)
        closing = _CLOSING.search(text)
        if opening is not None:
            if closing is None:
                return None
            text = text[closing.end() :]
        elif closing is not None and _ANY_OPENING.search(text, 0, closing.start()) is None:
            text = text[closing.end() :]
        else:
            return text


def unfenced(text: str) -> str:
    """The inside of a text that is one code fence, or one code span; else the text. Idempotent."""
    while True:
        stripped = text.strip()
        found = _FENCE.fullmatch(stripped)
        if found is not None and found[1] not in found[2]:
            text = found[2]
            continue
        span = _SPAN.fullmatch(stripped)
        if span is None:
            return text
        text = span[1]


def declines(text: str) -> bool:
    """Whether it says NONE and no more, however it is written."""
    return text.strip(_AROUND).rstrip(".!").strip(_AROUND).casefold() == "none"


def text_of(reply: Reply, *, partial: bool) -> str:
    """The text that counts, not blank. `partial`: one that was cut off at its ceiling counts too. Raises CallFailed."""
    if reply.finish == "filter":
        raise CallFailed("provider", "the provider's content filter withheld the answer", reply.usage)
    text = without_reasoning(reply.text)
    if text is None:
        raise CallFailed("truncated", "the reply ended within its reasoning: allow it more tokens", reply.usage)
    text = unfenced(text)
    if reply.finish == "length" and not (partial and text.strip()):
        raise CallFailed("truncated", "the reply was cut off at its ceiling: allow it more tokens", reply.usage)
    if not text.strip():
        raise CallFailed("empty", "the reply has no text", reply.usage)
    return text
