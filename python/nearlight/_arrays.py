"""NumPy where it is installed, memoryviews where it is not."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._native import PlaneMemory


def numpy() -> ModuleType | None:
    """NumPy, if there is one."""
    try:
        import numpy as module
    except ImportError:
        return None
    return module


def empty(shape: tuple[int, int, int]) -> Any:
    """Bytes of this shape, to be written: an array, or a memoryview without NumPy."""
    module = numpy()
    if module is not None:
        return module.empty(shape, dtype=module.uint8)
    rows, columns, values = shape
    return memoryview(bytearray(rows * columns * values)).cast("B", shape)


def of_plane(memory: PlaneMemory) -> Any:
    """The plane itself, not a copy: a read-only array, or a memoryview without NumPy."""
    module = numpy()
    return memoryview(memory) if module is None else module.asarray(memory)


def of_sound(samples: bytearray) -> Any:
    """Pairs of left and right: an array (frames, 2) of float32, or without NumPy an ``array.array`` with both in turn."""
    module = numpy()
    if module is not None:
        return module.frombuffer(samples, dtype=module.float32).reshape(-1, 2)
    from array import array

    flat = array("f")
    flat.frombytes(samples)
    return flat
