"""Curves: the still picture, the data for the script, and the table."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, strategies as st

from policy_sched.web import Chart, Series, components, json_for_script
from tests.web.gallery import chart

NUMBERS = st.none() | st.floats(0, 1e12)


def test_a_gap_begins_a_new_line() -> None:
    """A value that is not there interrupts the curve."""
    curve_chart = chart("queue")
    assert curve_chart.path(curve_chart.series[0]).count("M") == 1
    assert curve_chart.path(curve_chart.series[1]).count("M") == 2


def test_a_stepped_curve_holds_its_value() -> None:
    """A stepped curve goes across, then up or down."""
    curve_chart = Chart("a", "a", "x", [0, 1], [Series("s", [0, 4])], stepped=True)
    assert curve_chart.path(curve_chart.series[0]) == "M56.0 214.0H708.0V10.0"


def test_names_in_the_data_have_no_marks_that_turn_text() -> None:
    """The script writes names as they are, so what cannot be seen is an escape there, too."""
    data = chart("\u202egnp").data
    assert data["title"] == "\\u202egnp"
    assert "\u202e" not in str(data)


def test_a_point_that_is_alone_is_a_dot() -> None:
    """A value between two gaps is seen; one that a line reaches has no dot."""
    curve_chart = Chart("a", "a", "x", [0, 1, 2, 3], [Series("s", [4, None, 4, 4])])
    assert curve_chart.dots(curve_chart.series[0]) == "M56.0 10.0h0"


def test_values_in_seconds_are_durations() -> None:
    """The lines of the grid are at round lengths of time, and so are the table's texts."""
    curve_chart = Chart("a", "a", "x", [0, 1], [Series("s", [0, 1830])], unit="s")
    assert [tick.text for tick in curve_chart.y_ticks] == ["0s", "10m", "20m", "30m", "40m"]
    assert curve_chart.table.rows[1] == ["1", "30m30s"]


def test_whole_numbers_have_a_grid_of_whole_numbers() -> None:
    """A queue of one pod has no line at a fifth of a pod."""
    curve_chart = Chart("a", "a", "x", [0, 1], [Series("s", [0, 1])])
    assert [tick.text for tick in curve_chart.y_ticks] == ["0", "1"]


@pytest.mark.parametrize("value", [5e-324, 1e-310])
def test_a_value_next_to_nothing_is_drawn_at_the_bottom(value: float) -> None:
    """A curve with no value above 5e-324 divided by zero, and made the whole report fail."""
    curve_chart = Chart("a", "a", "x", [0.0], [Series("s", [value])])
    assert curve_chart.y_ticks[0].text == "0"
    assert curve_chart.path(curve_chart.series[0])


def test_ticks_are_round_numbers() -> None:
    """The grid has round numbers, from 0 up to the highest value or above it."""
    curve_chart = chart("queue")
    assert [tick.text for tick in curve_chart.y_ticks] == ["0", "2", "4", "6"]
    assert [tick.text for tick in curve_chart.x_ticks] == ["0s", "30m", "1h", "1h30m", "2h"]


@given(st.lists(st.tuples(st.floats(0, 1e9), NUMBERS), max_size=30), st.booleans())
def test_every_curve_can_be_drawn(values: list[tuple[float, float | None]], stepped: bool) -> None:
    """Whatever the numbers, ticks and tables exist, and the picture stays inside of its field."""
    values.sort(key=lambda pair: pair[0])
    x, y = [pair[0] for pair in values], [pair[1] for pair in values]
    curve_chart = Chart("a", "a", "x", x, [Series("s", y)], stepped=stepped)
    places = [tick.at for tick in (*curve_chart.x_ticks, *curve_chart.y_ticks)]
    path = (
        curve_chart.path(curve_chart.series[0])
        .replace("M", " ")
        .replace("L", " ")
        .replace("H", " ")
    )
    places += [float(number) for number in path.replace("V", " ").split()]
    assert all(
        -0.1 <= coordinate <= max(components.CHART_WIDTH, components.HEIGHT)
        for coordinate in places
    )
    assert len(curve_chart.y_ticks) <= 8
    assert len(curve_chart.table.rows) <= components.TABLE_ROWS
    json.loads(json_for_script(curve_chart.data))


def test_what_is_no_number_is_a_gap() -> None:
    """Infinite values are left out of the picture and of the data."""
    curve_chart = Chart("a", "a", "x", [0, 1, 2], [Series("s", [1.0, math.inf, math.nan])])
    assert curve_chart.path(curve_chart.series[0]) == "M56.0 10.0"
    assert curve_chart.data["series"] == [{"name": "s", "values": [1.0, None, None]}]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1234567.8, "1,234,568"), (0.12345, "0.1235"), (12.5, "12.5")]
)
def test_numbers_are_short(value: float, text: str) -> None:
    """Four digits, and commas from a thousand up."""
    assert components.number_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0s"), (45, "45s"), (3600, "1h"), (9000, "2h30m"), (129600, "1d12h")]
)
def test_durations_have_two_units(value: float, text: str) -> None:
    """Times are written with their two largest units."""
    assert components.seconds_text(value) == text


def test_a_band_surrounds_its_curve() -> None:
    """The area goes along the upper ends and back along the lower ones, without gaps."""
    series = Series("s", [1.0, 2.0, None], [0.0, 1.0, None], [2.0, 4.0, None])
    curve_chart = Chart("a", "a", "x", [0, 1, 2], [series])
    assert curve_chart.band(series) == "M56.0 112.0L382.0 10.0L382.0 163.0L56.0 214.0Z"
    assert curve_chart.band(Series("t", [1.0, 2.0, 3.0])) == ""
    assert curve_chart.data["series"] == [
        {"name": "s", "values": [1.0, 2.0, None], "low": [0.0, 1.0, None], "high": [2.0, 4.0, None]}
    ]
