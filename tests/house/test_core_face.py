"""The hand-written stub says what the compiled core offers, no more and no less."""

from __future__ import annotations

import ast
import inspect
import pickle
from pathlib import Path

import pytest

import brickyard
from brickyard import _core

STUB = ast.parse((Path(brickyard.__file__).parent / "_core.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef) and not node.bases}


def stubbed(body: list[ast.stmt]) -> dict[str, list[str]]:
    """Functions and methods with their parameters, without special methods and what is reached without a call."""
    return {
        node.name: [item.arg for item in node.args.args]
        for node in body
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("_")
        and not any(isinstance(d, ast.Name) and d.id == "property" for d in node.decorator_list)
    }


def offered(place: object) -> dict[str, list[str]]:
    return {
        name: list(inspect.signature(value).parameters)
        for name in dir(place)
        if not name.startswith("_") and callable(value := getattr(place, name)) and not inspect.isclass(value)
    }


def test_functions_agree_with_their_parameters() -> None:
    assert stubbed(STUB.body) == offered(_core)


def test_classes_agree_with_their_methods() -> None:
    found = {name for name in dir(_core) if inspect.isclass(getattr(_core, name))}
    assert set(CLASSES) == found
    for name, node in CLASSES.items():
        assert stubbed(node.body) == offered(getattr(_core, name))


def test_a_histogram_of_the_core_is_inflated_once_and_asked_often() -> None:
    from support import MS, US, histogram

    both = _core.Histogram.merged(text for text in [histogram([US] * 3), "", histogram([5 * MS])])
    assert both is not None
    assert (both.count, both.counts([500, 2 * US, MS, 10 * MS])) == (4, [3, 0, 1])
    assert both.percentiles_ns([50.0, 100.0]) == [pytest.approx(US, rel=0.01), pytest.approx(5 * MS, rel=0.01)]
    assert both.min_ns == pytest.approx(US, rel=0.01)
    assert both.max_ns == pytest.approx(5 * MS, rel=0.01)
    assert both.mean_ns == pytest.approx((3 * US + 5 * MS) / 4, rel=0.01)
    again = _core.Histogram(both.text())
    assert (again.count, again.stddev_ns) == (4, both.stddev_ns)
    of_counts = _core.Histogram.of_counts([(US, 3), (5 * MS, 1)])
    assert of_counts == both == pickle.loads(pickle.dumps(both))
    twice = _core.Histogram.merged([both, of_counts])
    assert twice is not None
    assert twice.count == 8
    assert _core.Histogram.merged(["", ""]) is None
    # Values outside of the edges belong to the first and the last bin.
    assert both.counts([10 * US, 20 * US, 30 * US]) == [3, 1]
    with pytest.raises(ValueError, match="not an HdrHistogram"):
        _core.Histogram("not base64!")


@pytest.mark.parametrize("text", ["", "not base64!", "SElTVEZBQUFB"])
def test_what_is_no_histogram_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is the core's own
        _core.Histogram(text)
