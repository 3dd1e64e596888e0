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

from agentdescent.ports import CallFailed
from agentdescent_adapters.providers.model import Reply
from agentdescent_adapters.providers.wrapping import unfenced, without_reasoning

_AROUND = "\"'`*_“”‘’«»() \t\r\n"


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
