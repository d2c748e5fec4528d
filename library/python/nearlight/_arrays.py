"""Uses NumPy when it is installed, and memoryviews otherwise."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._native import PlaneMemory


def numpy() -> ModuleType | None:
    """Returns NumPy, or None when it is not installed."""
    try:
        import numpy as module
    except ImportError:
        return None
    return module


def empty(shape: tuple[int, int, int]) -> Any:
    """Returns writable bytes of this shape: an array, or a memoryview without NumPy."""
    module = numpy()
    if module is not None:
        return module.empty(shape, dtype=module.uint8)
    rows, columns, values = shape
    return memoryview(bytearray(rows * columns * values)).cast("B", shape)


def of_plane(memory: PlaneMemory) -> Any:
    """Returns the plane without copying it: a read-only array, or a memoryview without NumPy."""
    module = numpy()
    return memoryview(memory) if module is None else module.asarray(memory)


def of_sound(samples: bytearray) -> Any:
    """Returns pairs of left and right: an array (frames, 2) of float32, or an interleaved ``array.array`` without NumPy."""
    module = numpy()
    if module is not None:
        return module.frombuffer(samples, dtype=module.float32).reshape(-1, 2)
    from array import array

    flat = array("f")
    flat.frombytes(samples)
    return flat
