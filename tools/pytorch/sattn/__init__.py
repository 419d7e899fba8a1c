"""Stochastic Attention and its relatives for Python, over the sattn C library.

    out = sattn.attention(q, k, v, mode="stochastic", window=256, seed=42)

Works on PyTorch tensors (CPU and CUDA, with gradients), NumPy arrays and everything that speaks DLPack. Importing this package imports neither
NumPy nor PyTorch.
"""

from ._attention import Permutation, attention, permutation
from ._library import (
    UNBOUNDED,
    DriverError,
    Error,
    FileError,
    InternalError,
    InvalidArgument,
    Mismatch,
    OutOfMemory,
    Unavailable,
    Unsupported,
    library_path,
    version,
)

__version__ = "0.1.0"

__all__ = [
    "UNBOUNDED",
    "DriverError",
    "Error",
    "FileError",
    "InternalError",
    "InvalidArgument",
    "Mismatch",
    "OutOfMemory",
    "Permutation",
    "Unavailable",
    "Unsupported",
    "attention",
    "library_path",
    "permutation",
    "version",
]
