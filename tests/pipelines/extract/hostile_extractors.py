"""Extractors that hang, grow and crash, for the tests of the child process."""

from __future__ import annotations

import os
import signal
import time


def hostile(markup: str, main_content: bool) -> list[object]:
    """Does what the page says."""
    blocks = []
    while markup in ("compute", "grow", "sleep"):
        if markup == "grow":
            blocks.append(bytearray(2**24))
        time.sleep(600 if markup == "sleep" else 0)
    if markup == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if markup == "exit":
        os._exit(3)
    if markup == "raise":
        raise ValueError("what an extractor says")
    if markup == "print":
        print("noise between the answers")
    if markup == "missing":
        raise ImportError("No module named 'extractor'")
    return [markup.upper(), os.getpid(), main_content]
