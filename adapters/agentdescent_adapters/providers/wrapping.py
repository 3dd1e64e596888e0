"""What models wrap an answer in: reasoning before it, a code fence around it. Pure and total."""

from __future__ import annotations

import re

_OPENING = re.compile(r"\s*<(think|thinking|thought|reasoning)>", re.I)
_CLOSING = re.compile(r"</(think|thinking|thought|reasoning)>", re.I)
_ANY_OPENING = re.compile(r"<(?:think|thinking|thought|reasoning)>", re.I)
_FENCE = re.compile(r"(`{3,}|~{3,})[^\n`~]*\n")
_SPAN = re.compile(r"`([^`\n]+)`")


def without_reasoning(text: str) -> str | None:
    """What follows the reasoning that a reply begins with; None when that does not end.

    Only what a reply begins with: an evolved text may well speak of such blocks. One whose opening was part of the
    prompt ends all the same, at the first closing.
    """
    at = 0
    while True:
        opening = _OPENING.match(text, at)
        closing = _CLOSING.search(text, at)
        if opening is not None:
            if closing is None:
                return None
        elif closing is None or _ANY_OPENING.search(text, at, closing.start()) is not None:
            return text[at:]
        at = closing.end()


def unfenced(text: str) -> str:
    """The inside of a text that is one code fence, or one code span; else the text. Idempotent."""
    while True:
        stripped = text.strip()
        opening = _FENCE.match(stripped)
        if opening is not None:
            body = stripped[opening.end() :]
            inside = body.rstrip(opening[1][0])
            if len(body) - len(inside) >= len(opening[1]) and opening[1] not in inside:
                text = inside.rstrip(" \t").removesuffix("\n")
                continue
        span = _SPAN.fullmatch(stripped)
        if span is None:
            return text
        text = span[1]
