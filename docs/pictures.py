"""The pictures in README and docs, of the real thing: what the demo writes to a terminal, and the page of its run.

    python -m docs.pictures     write docs/pictures/demo.svg and report.png (needs Debian's chromium)

The demo runs in a terminal of its own (a pty); what it wrote is played into lines, colours and all, and rich draws
them. Only the rate of the last picture of progress differs from one time to the next.
"""

from __future__ import annotations

import html
import io
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from bench import browser

PICTURES = Path(__file__).parent / "pictures"
COLUMNS, LINES = 96, 40
COMMAND = (sys.executable, "-m", "agentdescent_adapters")
_PIECE = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|(\n)|\r|([^\x1b\r\n]+)")


def main() -> int:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        written = in_terminal([*COMMAND, "demo"], folder)
        (PICTURES / "demo.svg").write_text(drawing("agentdescent demo", shown(written)), encoding="utf-8")
        run = Path(folder) / "runs" / "demo-1"
        subprocess.run([*COMMAND, "report", str(run)], check=True, stdout=subprocess.DEVNULL)
        browser.screenshot(run / "report.html", PICTURES / "report.png", width=1000, height=1000)
    return 0


def in_terminal(command: list[str], folder: str) -> str:
    """What a command writes to a terminal, whose size and colours are fixed."""
    sizes = {"COLUMNS": str(COLUMNS), "LINES": str(LINES), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs, env={**environment, **sizes}
    ) as process:
        os.close(theirs)
        pieces = []
        while True:
            try:
                piece = os.read(ours, 65_536)
            except OSError:  # Linux's way to say that nobody writes any more
                break
            if not piece:
                break
            pieces.append(piece)
        os.close(ours)
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return b"".join(pieces).decode("utf-8")


def shown(written: str) -> list[str]:
    """The lines that stay on the terminal, with their colours: of what a program may ask, up (A) and erasing a line
    (K), which is all that progress does; whole lines are written over."""
    lines, at = [""], 0
    for piece in _PIECE.finditer(written):
        asked, letter, newline, text = piece.groups()
        if letter == "A":
            at = max(0, at - int(asked or 1))
        elif letter == "K":
            lines[at] = ""
        elif letter == "m":
            lines[at] += piece.group()
        elif newline:
            at += 1
            if at == len(lines):
                lines.append("")
        elif text:
            lines[at] += text
    return [line.rstrip() for line in lines]


def drawing(typed: str, lines: list[str]) -> str:
    """An SVG of a terminal in which a command was typed; it needs no font of a server's."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.assemble(("$ ", "dim"), (typed, "bold")))
    for line in "\n".join(lines).strip("\n").split("\n"):
        console.print(Text.from_ansi(line), overflow="fold")
    svg = console.export_svg(title="agentdescent", theme=MONOKAI, unique_id="demo")
    svg = re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.S)
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def text_of(svg: str) -> str:
    """What such a drawing says, without its spaces."""
    return "".join("".join(html.unescape(one) for one in re.findall(r"<text[^>]*>([^<]*)</text>", svg)).split())


if __name__ == "__main__":
    sys.exit(main())
