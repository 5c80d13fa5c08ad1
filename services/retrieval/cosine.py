"""The arithmetic of `cosine_exact_v1`, and the float32 estimate that finds which rows need it.

Exact: values are float32; products and sums are float64. A sum is numpy's pairwise summation over the products in
vector order, so it depends on the two vectors alone, never on how many rows are computed together. Zero is always +0.0.

    cosine = (sum of a*b) / (sqrt(sum of a*a) * sqrt(sum of b*b)), bounded to [-1, 1]

Estimate: a float32 matrix-vector product over rows that are kept near unit size, with a bound on its error.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from services.domain.embeddings import Float32Vector

Float32Matrix = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]

_FLOAT32_UNIT_ROUNDOFF = 2.0**-24
# Rows whose largest magnitude has an exponent in this range are kept as they came.
_EXPONENT_MIN, _EXPONENT_MAX = -20, 20


def dot_products(rows: Float32Matrix, query: Float64Array) -> Float64Array:
    """Sums of products of each row with the query.

    Args:
        rows: (rows, dims) float32.
        query: (dims,) float64.

    Returns:
        (rows,) float64 by pairwise summation; never -0.0.
    """
    products: Float64Array = np.multiply(rows, query, dtype=np.float64)
    sums: Float64Array = np.add.reduce(products, axis=1)
    sums += 0.0
    return sums


def vector_norms(rows: Float32Matrix) -> Float64Array:
    """Euclidean norms, (rows,) float64, of (rows, dims) float32 rows."""
    wide = rows.astype(np.float64)
    wide *= wide
    norms: Float64Array = np.sqrt(np.add.reduce(wide, axis=1))
    return norms


def exact_cosines(rows: Float32Matrix, norms: Float64Array, query: Float64Array, query_norm: float) -> Float64Array:
    """Cosines of each row with the query.

    Args:
        rows: (rows, dims) float32, none zero. A common power of two in a row changes nothing, not even the last bit.
        norms: (rows,) float64, `vector_norms` of the rows.
        query: (dims,) float64, the query's float32 values.
        query_norm: Its norm.

    Returns:
        (rows,) float64 in [-1, 1].
    """
    cosines = dot_products(rows, query)
    cosines /= norms * query_norm
    return np.clip(cosines, -1.0, 1.0, out=cosines)


def cosine(left: Float32Vector, right: Float32Vector) -> float:
    """Exact cosine of two (dims,) float32 vectors, neither zero."""
    pair = np.stack((left, right))
    norms = vector_norms(pair)
    return float(exact_cosines(pair[:1], norms[:1], pair[1].astype(np.float64), float(norms[1]))[0])


def scale_rows(rows: Float32Matrix) -> npt.NDArray[np.bool_]:
    """Scale rows of extreme size by powers of two, in place, so that float32 arithmetic on them is safe.

    Args:
        rows: (rows, dims) float32, none zero.

    Returns:
        (rows,) True where the scaling lost small values, so that exact work needs the row as it came.
    """
    _, exponents = np.frexp(np.abs(rows).max(axis=1, initial=0.0))
    lossy = np.zeros(len(rows), np.bool_)
    for index in np.flatnonzero((exponents < _EXPONENT_MIN) | (exponents > _EXPONENT_MAX)):
        original = rows[index].astype(np.float64)
        shift = -int(exponents[index])
        rows[index] = np.ldexp(original, shift)
        lossy[index] = not np.array_equal(np.ldexp(rows[index].astype(np.float64), -shift), original)
    return lossy


def unit_query(query: Float32Vector) -> tuple[Float32Vector, Float64Array, float]:
    """A query prepared for the estimate and for exact work.

    Returns:
        (dims,) float32 of length about 1; (dims,) float64 with the query's own values; its norm.
    """
    wide = query.astype(np.float64)
    norm = float(np.sqrt(np.add.reduce(wide * wide)))
    return (wide / norm).astype(np.float32), wide, norm


def estimate_error(dimensions: int) -> float:
    """Greatest distance between an estimated and the exact cosine.

    The float32 dot product of n terms in any order errs by at most n*u / (1 - n*u) of the product of the norms;
    rounding the unit query adds u, the division by the row's norm and its storage 3*u, comparing with a float32
    threshold 2*u, and underflow less than 2^-80.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, section 3.1.
    """
    spread = (dimensions + 16) * _FLOAT32_UNIT_ROUNDOFF
    return spread / (1.0 - spread)
