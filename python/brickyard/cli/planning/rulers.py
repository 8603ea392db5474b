"""Duty: `brickyard rulers`. Refusal: nothing is judged; `run`, `show` and `report` take --ruler for that."""

from __future__ import annotations

from cyclopts import App

from brickyard import rulers
from brickyard.analysis.judging.verdict import unit
from brickyard.analysis.judging.verdict_words import threshold_text
from brickyard.cli.parts import options
from brickyard.cli.parts.output import emit, print_line, stdout, table
from brickyard.schema import Document

app = App(name="rulers", help="List the requirements (SLOs) that a run can be compared with.")


@app.default
def list_rulers(*, json: options.Json = False) -> int:
    """List the rulers that ship with Brickyard. Other requirements can be written directly: --ruler 'p99<=5ms'."""
    found = [rulers.read(name) for name in rulers.names()]
    if json:
        emit({"rulers": [_document(ruler) for ruler in found]})
    else:
        rows = [[ruler.name, str(len(ruler.requirements)), ruler.title] for ruler in found]
        stdout().print(table("", [("ruler", "left"), ("lines", "right"), ("title", "left")], rows))
    return 0


@app.command(name="show", help="What one ruler requires.")
def show_ruler(name: str, /, *, json: options.Json = False) -> int:
    """Show what one ruler requires.

    Parameters
    ----------
    name
        A shipped ruler, one line of it (hd-video:1080i-8-bit), a path, or one written out ('p99<=5ms').
    """
    ruler = rulers.read(name)
    if json:
        emit(_document(ruler))
        return 0
    console = stdout()
    for line in (ruler.title, f"  source: {ruler.source}", f"  about: {ruler.about}" if ruler.about else ""):
        if line:
            print_line(console, line)
    rows = [[r.name, r.figure, threshold_text(r), r.operation or "all", r.stream or "all"] for r in ruler.requirements]
    names = ("requirement", "figure", "threshold", "operations", "streams")
    console.print(table("", [(heading, "left") for heading in names], rows))
    return 0


def _document(ruler: rulers.Ruler) -> Document:
    return {
        "name": ruler.name,
        "title": ruler.title,
        "source": ruler.source,
        "about": ruler.about,
        "requirements": [
            {
                "name": r.name,
                "figure": r.figure,
                "threshold": r.threshold,
                "unit": unit(r),
                "measure": None if r.is_rate or r.is_share else r.measure,
                "operation": r.operation,
                "stream": r.stream,
                "address": r.address,
                "request_bytes_min": r.request_bytes_min,
            }
            for r in ruler.requirements
        ],
    }
