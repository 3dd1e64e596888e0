"""Regular expressions of users, on outputs of models: a search that ends.

Python's matcher cannot be interrupted, and backtracks: `(a+)+b` on thirty letters takes minutes, `.*.*.*b` on ten
thousand takes days. A pattern with at most one repetition, option or alternative cannot, on an output of some length;
any other is searched for in a process of its own, which costs some 15 ms and can be ended. What lost: to look for
nested repetitions in the pattern (it refuses good ones, and misses `(a|a)*b`), and a thread with a deadline (the
matcher holds the interpreter).
"""

from __future__ import annotations

import re
import subprocess
import sys

LONGEST = 5_000
"""Characters that are searched in this process."""

SECONDS = 5.0
"""That a search may take, starting a process included."""

_BRANCHING = re.compile(r"[*+?{|]")
_PLAIN = re.compile(r"\\.|\(\?[aimsux]+\)", re.DOTALL)
"""What has such a character and does not branch: what is escaped, and flags."""

_SEARCH = """
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))  # should nobody be left to end it
except (ImportError, OSError, ValueError):
    pass
import re
size, data = int(sys.argv[1]), sys.stdin.buffer.read()
pattern, text = data[:size].decode("utf-8", "surrogatepass"), data[size:].decode("utf-8", "surrogatepass")
sys.stdout.write("yes" if re.search(pattern, text) else "no")
"""


def compiled(pattern: str) -> re.Pattern[str]:
    """Raises ValueError that says what is wrong with a pattern, and where."""
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(str(error) or type(error).__name__) from error


def found(pattern: str, text: str, seconds: float = SECONDS) -> bool:
    """Whether the pattern occurs in `text`. Raises ValueError for a pattern that is none, TimeoutError when finding out
    takes longer than `seconds`."""
    expression = compiled(pattern)
    if len(text) <= LONGEST and len(_BRANCHING.findall(_PLAIN.sub("", pattern))) <= 1:
        return expression.search(text) is not None
    return _found_apart(pattern, text, seconds)


def _found_apart(pattern: str, text: str, seconds: float) -> bool:
    head = pattern.encode("utf-8", "surrogatepass")
    command = [sys.executable, "-I", "-S", "-c", _SEARCH, str(len(head))]
    data = head + text.encode("utf-8", "surrogatepass")
    try:
        done = subprocess.run(command, input=data, capture_output=True, timeout=seconds, check=True)
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"not found out in {seconds:g} s") from error
    return done.stdout == b"yes"
