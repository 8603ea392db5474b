"""Pages in a real browser: somebody who is logged in, and whether what is seen is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page

from web_support import OPERATOR, Served

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()


def logged_in(browser: Browser, served: Served, **options: Any) -> tuple[BrowserContext, Page]:
    context = browser.new_context(**options)
    tab = context.new_page()
    tab.goto(f"{served.origin}/login#{OPERATOR}")
    tab.wait_for_url(f"{served.origin}/")
    return context, tab


def whole(tab: Page) -> list[str]:
    """What is wrong with the layout of a page at its width."""
    found: list[str] = tab.evaluate(
        """() => {
          const wide = document.documentElement.clientWidth, said = [];
          if (document.documentElement.scrollWidth > wide) said.push(`${document.documentElement.scrollWidth} wide`);
          for (const one of document.querySelectorAll('main *')) {
            const box = one.getBoundingClientRect();
            if (!box.width || one.closest('.scroll, .hidden, pre, .uplot, [hidden]')) continue;
            if (box.right > wide + 1 || box.left < -1) said.push(`${one.tagName} ${one.className} outside`);
          }
          return said.slice(0, 5);
        }"""
    )
    return found
