"""The comparison of pictures and pages: rounding passes, every other change fails."""

from __future__ import annotations

import pytest
from tests.helpers.svg_compare import assert_same_picture, assert_same_text

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    '<defs><path id="m34e515ce58" d="M 0 0 L 0.5 -3.250001"/></defs>'
    '<g clip-path="url(#p1757a34ae6)"><use xlink:href="#m34e515ce58" x="39.16774" style="fill: '
    '#1f77b4"/></g>'
    '<clipPath id="p1757a34ae6"><rect width="2.5"/></clipPath><text>Table 7</text></svg>'
)


def change(old: str, new: str) -> bytes:
    assert old in SVG
    return SVG.replace(old, new).encode()


@pytest.mark.parametrize(
    ("old", "new"),
    [("39.16774", "39.167739"), ("-3.250001", "-3.25"), ("m34e515ce58", "mffffffffff")],
)
def test_last_digits_and_identifiers_may_differ(old, new):
    assert_same_picture(change(old, new), SVG.encode())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("39.16774", "39.17774"),
        ("#1f77b4", "#1f77b5"),
        ("#1f77b4", "#af77b4"),
        ("Table 7", "Table 8"),
        ("Table", "Figure"),
        ('<rect width="2.5"/>', ""),
        ('width="2.5"', 'height="2.5"'),
        ("L 0.5", "M 0.5"),
        ('href="#m34e515ce58"', 'href="#p1757a34ae6"'),
    ],
)
def test_a_picture_with_another_number_colour_word_or_element_fails(old, new):
    with pytest.raises((AssertionError, ValueError)):
        assert_same_picture(change(old, new), SVG.encode())


def test_a_number_may_differ_by_one_in_its_last_printed_digit():
    page = "| low | 90.25 ± 0.50 | 1.23e-3 | 1,024 rows |"
    for old, new in [("90.25", "90.26"), ("1.23e-3", "1.22e-3"), ("0.50", "0.49")]:
        assert_same_text(page.replace(old, new), page)
    for old, new in [
        ("90.25", "90.27"),
        ("1.23e-3", "1.23e-4"),
        ("1,024", "1,025"),
        ("rows", "row"),
    ]:
        with pytest.raises(AssertionError):
            assert_same_text(page.replace(old, new), page)
