"""Opening the user's files as a `RawGraph`: .npy, .npz, text and Parquet. Open first: open.py."""

from starling.stream.readers.open import open_inputs

__all__ = ["open_inputs"]
