"""Quantities mean what Kubernetes means by them, to the last nano-unit.

Point 5 of the language's test plan, for quantities.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from policy_sched.model.quantity import (
    FORMAT_WRONG,
    MAX_INT64,
    MAX_UNITS,
    MIN_INT64,
    SUFFIX_WRONG,
    Format,
    nanos,
    parse,
    units,
    units_of_nanos,
)

SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
    "e3": Fraction(1000),
    "E3": Fraction(1000),
    "e+3": Fraction(1000),
    "e-3": Fraction(1, 1000),
    "e0": Fraction(1),
}


class TestParse:
    """Every form that people write."""

    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_each_suffix_multiplies_by_its_factor(self, suffix: str) -> None:
        """Each suffix multiplies by its factor."""
        assert parse(f"3{suffix}").nanos == 3 * SUFFIXES[suffix] * 10**9

    @pytest.mark.parametrize(
        ("text", "value", "milli"),
        [
            ("0", 0, 0),
            ("100m", 1, 100),
            ("1500m", 2, 1500),
            ("0.5", 1, 500),
            (".5", 1, 500),
            ("5.", 5, 5000),
            ("+5", 5, 5000),
            ("1.5Gi", 1610612736, 1610612736000),
            ("0.1Ki", 103, 102400),
            ("1n", 1, 1),
            ("1u", 1, 1),
            ("1.0001", 2, 1001),
            ("-1.5", -2, -1500),
            ("-0.1m", -1, -1),
            ("0.0000000001", 1, 1),
            ("1e-30", 1, 1),
            ("12e6", 12000000, 12000000000),
            ("1E", 10**18, MAX_INT64),
            ("8Ei", MAX_INT64, MAX_INT64),
            ("-8Ei", MIN_INT64 + 1, MIN_INT64),
            ("1e30", MAX_INT64, MAX_INT64),
            ("-1e30", MIN_INT64, MIN_INT64),
            ("00012", 12, 12000),
            ("", None, None),
        ],
    )
    def test_values_round_away_from_zero_and_end_at_int64(
        self, text: str, value: int | None, milli: int | None
    ) -> None:
        """Value and milli-value round away from zero and end at the limits of int64."""
        if value is None:
            with pytest.raises(ValueError, match="quantities must match"):
                parse(text)
            return
        assert (parse(text).value(), parse(text).milli_value()) == (value, milli)

    @pytest.mark.parametrize("text", [".", "-", "+", "m", "Ki", "-.", "000"])
    def test_no_digits_is_zero(self, text: str) -> None:
        """Kubernetes reads a quantity without digits as zero, and so it is here."""
        assert parse(text).nanos == 0

    @pytest.mark.parametrize(
        "text", ["", " 1", "1 ", "abc", "1.2.3", "1_000", "1KI", "1mm m", "\u0661"]
    )
    def test_invalid_quantities_are_refused_in_kubernetes_words(self, text: str) -> None:
        """Invalid quantities are rejected in Kubernetes' words."""
        with pytest.raises(ValueError, match="quantities must match") as caught:
            parse(text)
        assert str(caught.value) == FORMAT_WRONG

    @pytest.mark.parametrize(
        "text", ["1K", "1mi", "1ki", "--1", "1e", "1e+", "1mm", "1Kie3", "1-2", "1i"]
    )
    def test_an_unknown_suffix_is_refused_in_kubernetes_words(self, text: str) -> None:
        """A suffix that does not exist is refused in Kubernetes' words."""
        with pytest.raises(ValueError, match="unable to parse") as caught:
            parse(text)
        assert str(caught.value) == SUFFIX_WRONG

    def test_an_exponent_that_would_fill_the_memory_is_refused(self) -> None:
        """An exponent that would fill the memory is refused; a tiny one rounds up."""
        with pytest.raises(ValueError, match="exponent 1000000000 is larger than 1000"):
            parse("1e1000000000")
        assert parse("1e-1000000000").nanos == 1

    @given(
        whole=st.integers(0, 10**12),
        fraction=st.text("0123456789", max_size=12),
        suffix=st.sampled_from(sorted(SUFFIXES)),
        sign=st.sampled_from(["", "+", "-"]),
    )
    def test_amounts_are_exact_to_the_nano_unit(
        self, whole: int, fraction: str, suffix: str, sign: str
    ) -> None:
        """Every amount is exact to the nano-unit; smaller fractions round away from zero."""
        exact = (whole + Fraction(int(fraction or 0), 10 ** len(fraction))) * SUFFIXES[suffix]
        scaled = exact * 10**9
        expected = -(-scaled.numerator // scaled.denominator)
        if suffix.endswith("i"):
            expected = min(expected, MAX_INT64 * 10**9)
        found = parse(f"{sign}{whole}.{fraction}{suffix}")
        assert found.nanos == (-expected if sign == "-" else expected)


class TestCanonical:
    """A quantity is written with the largest suffix that needs no fraction."""

    @pytest.mark.parametrize(
        ("text", "canonical"),
        [
            ("0", "0"),
            ("0Ki", "0"),
            ("1.5", "1500m"),
            ("1500m", "1500m"),
            ("1000m", "1"),
            ("500000m", "500"),
            ("1000", "1k"),
            ("1000k", "1M"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1000Ki", "1000Ki"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("1023.5Ki", "1048064"),
            ("0.1Ki", "102400m"),
            ("1e3", "1e3"),
            ("1e2", "100"),
            ("1e4", "10e3"),
            ("0.5e3", "500"),
            ("1100e-3", "1100e-3"),
            ("+1", "+1"),
            ("01", "01"),
            ("-2000", "-2k"),
            ("9Ei", "9223372036854775807"),
            ("1E", "1E"),
            ("5000E", "5000E"),
            ("0.1n", "1n"),
        ],
    )
    def test_the_text_of_a_quantity_is_kubernetes_own(self, text: str, canonical: str) -> None:
        """The text is Kubernetes' own, which keeps some spellings as they came."""
        assert str(parse(text)) == canonical

    @given(
        number=st.integers(-(10**15), 10**15),
        suffix=st.sampled_from(sorted(SUFFIXES)),
    )
    def test_canonical_text_means_the_same_amount(self, number: int, suffix: str) -> None:
        """Canonical text means the same amount, and is its own canonical text."""
        first = parse(f"{number}{suffix}")
        again = parse(str(first))
        assert again.nanos == first.nanos
        assert str(again) == str(first)

    def test_small_binary_amounts_are_decimal(self) -> None:
        """A binary amount below one unit is kept as a decimal one."""
        assert parse("0.0005Ki").format is Format.DECIMAL_SI
        assert parse("0.5Ki").format is Format.BINARY_SI


class TestUnits:
    """The scheduler's units."""

    @pytest.mark.parametrize(
        ("resource", "amount", "expected"),
        [
            ("cpu", "1500m", 1500),
            ("cpu", 2, 2000),
            ("cpu", 0.5, 500),
            ("cpu", 1.0, 1000),
            ("memory", "1Gi", 1 << 30),
            ("memory", 1e3, 1000),
            ("memory", 1e20, MAX_UNITS),
            ("nvidia.com/gpu", " 2 ", 2),
            ("pods", 110, 110),
        ],
    )
    def test_cpu_counts_in_milli_units_and_all_else_in_whole_ones(
        self, resource: str, amount: str | float, expected: int
    ) -> None:
        """Cpu counts in milli-units and all else in whole ones; bare numbers are quantities too."""
        assert units(resource, amount) == expected

    @given(st.integers(-(10**30), 10**30))
    def test_nano_units_round_away_from_zero(self, amount: int) -> None:
        """Nano-units round away from zero, and stay within the amounts that are exact."""
        rounded = -(-abs(amount) // 10**9) * (1 if amount >= 0 else -1)
        expected = min(max(rounded, -MAX_UNITS), MAX_UNITS)
        assert units_of_nanos("memory", amount) == expected

    def test_a_bad_amount_stays_bad_at_every_reading(self) -> None:
        """A bad amount stays bad at every reading."""
        for _ in range(2):
            with pytest.raises(ValueError, match="quantities must match"):
                units("cpu", "x")
            with pytest.raises(ValueError, match="quantities must match"):
                nanos("nan")

    def test_the_sign_of_an_amount_is_minus_1_0_or_1(self) -> None:
        """The sign is -1, 0 or 1."""
        assert [parse(t).sign() for t in ("-1n", "0", "1n")] == [-1, 0, 1]
