"""Helpers of several tests. No test depends on timing: they check only counts and contents."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy

import nearlight

WIDTH, HEIGHT = 320, 192
#: Time limit in seconds, long enough for a busy machine.
LONG = 30.0

# A shell's background job ignores Ctrl-C, and so would the programs that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def flat(colour: tuple[int, ...], width: int = WIDTH, height: int = HEIGHT) -> Any:
    """Returns a picture of one colour."""
    return numpy.full((height, width, len(colour)), colour, dtype=numpy.uint8)


class LikePillow:
    """Has its pixels in NumPy's array interface only, as pictures of Pillow do."""

    def __init__(self, array: Any, kind: str = "|u1") -> None:
        self.mode = "L" if array.ndim == 2 else "RGB"
        self.__array_interface__ = {"shape": array.shape, "typestr": kind, "version": 3, "data": array.tobytes()}


class LikeTensor:
    """Has its values in DLPack only, as tensors do."""

    def __init__(self, array: Any, device: int = 1) -> None:
        self.array, self.device, self.shape = array, device, array.shape

    def __dlpack__(self) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


def server(**options: Any) -> nearlight.Server:
    return nearlight.serve(**{"address": "127.0.0.1", "width": WIDTH, "height": HEIGHT, "fps": 30, **options})


@contextmanager
def stream(**options: Any) -> Iterator[tuple[nearlight.Server, nearlight.Viewer]]:
    """Opens a server and a viewer that watches it."""
    with server() as host, nearlight.view(host.link, **options) as viewer:
        until("somebody watches", lambda: host.is_watched)
        yield host, viewer


def until(what: str, done: Callable[[], Any]) -> Any:
    """Calls the function until it returns a true value or pixels, and returns that."""
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        answer = done()
        if isinstance(answer, numpy.ndarray) or answer:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"{what}: never")


def shown(host: nearlight.Server, viewer: nearlight.Viewer, submit: Callable[[], None], wanted: Callable[[Any], bool]) -> Any:
    """Submits until a picture arrives whose pixels in the middle match, and returns its pixels."""

    def look() -> Any:
        submit()
        picture = viewer.poll_picture(0.1)
        if picture is None:
            return None
        pixels = picture.rgb()
        return pixels if wanted(pixels) else None

    return until("the picture", look)


def near(pixels: Any, colour: tuple[int, int, int], place: tuple[int, int] | None = None) -> bool:
    """Returns whether the middle, or this row and column, has about this colour."""
    row, column = place or (pixels.shape[0] // 2, pixels.shape[1] // 2)
    return bool((abs(pixels[row, column].astype(int) - colour) <= 12).all())


def interrupted(program: str, *arguments: str) -> str:
    """Runs a program until it writes a line, then presses Ctrl-C. Checks that it ends by KeyboardInterrupt, and returns its output."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=LONG)
    finally:
        process.kill()
    case = unittest.TestCase()
    case.assertIn("KeyboardInterrupt", errors)
    return out
