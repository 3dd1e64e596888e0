"""A page in a headless Chromium: what it says to the console, whether everybody can use it, and how it looks.

Chromium is Debian's package, axe-core that of npm (`npm install --prefix build/axe axe-core@4`, or AXE naming the
folder that holds axe.min.js).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import msgspec

ROOT = Path(__file__).parent.parent
AXE = Path(os.environ.get("AXE", ROOT / "build/axe/node_modules/axe-core"))
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
_CONSOLE = re.compile(r"CONSOLE[^\]]*\] (.*)")
_FOUND = re.compile(r'<script type="application/json" id="axe-found">(.*?)</script>', re.S)
_AUDIT = """<script>SCRIPT</script><script>
addEventListener("load", async () => {
  document.documentElement.style.width = "WIDTHpx";  // a window cannot be as narrow as a telephone
  for (const one of document.querySelectorAll("details")) one.open = true;
  const shown = [...document.querySelectorAll("body *")].filter(one => !one.closest(".scroll *, pre *, .skip, script"));
  const found = await axe.run(document, {resultTypes: ["violations"]});
  const told = document.createElement("script");
  told.type = "application/json";
  told.id = "axe-found";
  told.textContent = JSON.stringify({
    violations: found.violations.map(v => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 120)]),
    wider: Math.ceil(Math.max(...shown.map(one => one.getBoundingClientRect().right)) - WIDTH),
  });
  document.body.append(told);
});
</script></body>"""


class Audit(msgspec.Struct, frozen=True):
    """`violations`: (rule of axe, elements, one of them). `wider`: by how many pixels something reaches
    beyond the width, but for what scrolls on its own. `console`: messages of the page."""

    violations: tuple[tuple[str, int, str], ...]
    wider: int
    console: tuple[str, ...] = ()


def chromium() -> str | None:
    """Where the browser is, None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def axe() -> Path | None:
    found = AXE / "axe.min.js"
    return found if found.exists() else None


def audit(page: Path, *, width: int = 1280, dark: bool = False) -> Audit:
    """Open the page as it is, for its console; and a copy with axe in it, for everything else."""
    script = axe()
    if script is None:
        raise FileNotFoundError(f"{AXE} holds no axe.min.js")
    console = tuple(_CONSOLE.findall(_run(page, width, dark, "--enable-logging=stderr", "--dump-dom").stderr))
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "audited.html"
        html = page.read_text(encoding="utf-8")
        audited = _AUDIT.replace("WIDTH", str(width)).replace("SCRIPT", script.read_text(encoding="utf-8"))
        copy.write_text(html.replace("</body>", audited), encoding="utf-8")
        dom = _run(copy, width, dark, "--virtual-time-budget=60000", "--dump-dom").stdout
    found = _FOUND.search(dom)
    if found is None:
        raise RuntimeError(f"{page}: axe did not come to an end")
    text = found.group(1).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return msgspec.structs.replace(msgspec.json.decode(text, type=Audit), console=console)


def screenshot(page: Path, picture: Path, *, width: int, height: int, dark: bool = False) -> None:
    """The top `height` pixels of the page as a PNG file."""
    _run(page, width, dark, f"--screenshot={picture}", height=height)


def _run(page: Path, width: int, dark: bool, *flags: str, height: int = 1000) -> subprocess.CompletedProcess[str]:
    browser = chromium()
    if browser is None:
        raise FileNotFoundError("chromium is not installed")
    theme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [browser, *_FLAGS, *theme, f"--user-data-dir={profile}", f"--window-size={width},{height}", *flags]
        return subprocess.run(
            [*command, page.resolve().as_uri()], capture_output=True, text=True, timeout=180, check=True
        )
