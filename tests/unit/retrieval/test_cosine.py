"""The arithmetic of cosine_exact_v1, and the bound of its estimate."""

from __future__ import annotations

import math

import numpy as np
import pytest

from services.retrieval.cosine import cosine, estimate_error, exact_cosines, scale_rows, unit_query, vector_norms


def vector(*numbers: float) -> np.ndarray:
    """A float32 vector."""
    return np.array(numbers, np.float32)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ((1.0, 0.05, 0.0, 0.0), 0.998752338840731),
        ((0.8, 0.2, 0.0, 0.0), 0.9701425001453319),
        ((0.7, 0.3, 0.0, 0.0), 0.919145021921706),
        ((0.6, 0.4, 0.0, 0.0), 0.8320503006960566),
    ],
)
def test_the_contracts_samples_come_out(document: tuple[float, ...], expected: float) -> None:
    """To the last digit: float32 values, float64 sums."""
    assert expected == cosine(vector(*document), vector(1, 0, 0, 0))


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((3e38, 3e38), (3e38, 3e38), 1.0),
        ((1e-45, 0.0), (1e-45, 0.0), 1.0),
        ((1e-30, 1e-30), (1e-30, 1e-30), 1.0),
        ((3e38, 3e38), (1.0, 0.0), math.sqrt(0.5)),
        ((1e-30, 1e-30), (1.0, 0.0), math.sqrt(0.5)),
        ((1e-45, 0.0), (1.0, 0.0), 1.0),
        ((3e38, 0.0), (-1e-45, 0.0), -1.0),
    ],
)
def test_odd_sizes_change_no_direction(left: tuple[float, ...], right: tuple[float, ...], expected: float) -> None:
    """Case C04: the largest and smallest float32 values give the cosine of their directions, within [-1, 1]."""
    found = cosine(vector(*left), vector(*right))
    assert math.isclose(expected, found, rel_tol=0, abs_tol=1e-9)
    assert -1.0 <= found <= 1.0


def test_a_cosine_of_zero_is_never_negative_zero() -> None:
    """So that the order of the two zeros never decides."""
    assert math.copysign(1.0, cosine(vector(-0.0, -1.0), vector(1.0, 0.0))) == 1.0


def test_a_cosine_does_not_depend_on_what_is_computed_beside_it() -> None:
    """The same bits for one row alone, among others, and in every block."""
    random = np.random.default_rng(2)
    for dimensions in (1, 3, 7, 129, 384, 1000, 4097):
        rows = random.standard_normal((300, dimensions)).astype(np.float32)
        rows[150:] = rows[:150]
        _, query, norm = unit_query(random.standard_normal(dimensions).astype(np.float32))
        together = exact_cosines(rows, vector_norms(rows), query, norm)
        alone = [exact_cosines(row[None], vector_norms(row[None]), query, norm)[0] for row in rows[:150]]
        assert together[:150].tolist() == alone
        assert together[150:].tolist() == alone


@pytest.mark.parametrize("exponent", [-140, -60, -21, 0, 21, 60, 120])
def test_scaling_by_a_power_of_two_keeps_the_last_bit(exponent: int) -> None:
    """A scaled row gives the bits that the row itself gives in float64."""
    random = np.random.default_rng(3)
    rows = np.ldexp(random.uniform(0.5, 1, (20, 16)), exponent).astype(np.float32)
    query = random.standard_normal(16)
    scaled = rows.copy()
    lossy = scale_rows(scaled)
    expected = exact_cosines(rows, vector_norms(rows), query, 1.5)
    assert not lossy.any()
    assert expected.tolist() == exact_cosines(scaled, vector_norms(scaled), query, 1.5).tolist()
    assert 2.0**-21 < np.abs(scaled).max() < 2.0**21


def test_scaling_that_would_lose_values_is_told() -> None:
    """A row that spans more than float32 can scale needs to be kept as it came."""
    rows = np.array([[3e38, 1e-45], [1.0, 1e-45]], np.float32)
    assert scale_rows(rows).tolist() == [True, False]


@pytest.mark.parametrize("dimensions", [1, 2, 384, 4096])
def test_the_estimate_stays_within_its_bound(dimensions: int) -> None:
    """For rows of equal direction, where errors add up, as for random ones."""
    random = np.random.default_rng(4)
    rows = random.standard_normal((200, dimensions)).astype(np.float32)
    rows[:50] = np.abs(rows[:50])
    unit, wide, norm = unit_query(np.abs(random.standard_normal(dimensions)).astype(np.float32))
    norms = vector_norms(rows)
    estimates = (rows @ unit) * (1.0 / norms).astype(np.float32)
    error = np.abs(estimates.astype(np.float64) - exact_cosines(rows, norms, wide, norm)).max()
    assert error <= estimate_error(dimensions)
