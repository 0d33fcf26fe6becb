"""Comparison of SVG pictures and of text with numbers, up to the rounding of another processor."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ElementTree
from io import BytesIO

import numpy as np

_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[-+]?\d+)?")
_POINTS = 1e-3  # coordinates are printed with six digits after the point, in 1/72 inch
_PNG = "data:image/png;base64,"


def assert_same_text(found: str, expected: str) -> None:
    """Require the same words; a number may differ by one unit of its last printed digit."""
    assert _NUMBER.sub("#", found) == _NUMBER.sub("#", expected)
    for number, wanted in zip(_NUMBER.findall(found), _NUMBER.findall(expected), strict=True):
        limit = _last_digit(wanted) if "." in wanted else 0.0
        difference = abs(float(number.replace(",", "")) - float(wanted.replace(",", "")))
        assert difference <= 1.001 * limit, f"{number} instead of {wanted}"


def _last_digit(number: str) -> float:
    """Return the unit of the last printed digit: 0.01 for "3.25", 1e-5 for "1.23e-3"."""
    mantissa, _, exponent = number.partition("e")
    return float(10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])))


def assert_same_picture(found: bytes, expected: bytes) -> None:
    """Require the same elements, attributes and words in the same order, and close numbers.

    Identifiers are compared by the order in which they first appear: matplotlib derives them from
    all bits of the coordinates. Embedded images are compared pixel by pixel.
    """
    pairs = zip(
        *(list(ElementTree.fromstring(svg).iter()) for svg in (found, expected)), strict=True
    )
    names: tuple[dict[str, int], dict[str, int]] = ({}, {})
    for one, other in pairs:
        assert one.tag == other.tag
        assert list(one.attrib) == list(other.attrib), one.tag
        values = [(name, one.attrib[name], other.attrib[name]) for name in one.attrib]
        for name, value, wanted in [*values, ("text", one.text or "", other.text or "")]:
            if value.startswith(_PNG) and wanted.startswith(_PNG):
                np.testing.assert_allclose(_pixels(value), _pixels(wanted), rtol=0, atol=2 / 255)
                continue
            if name == "id":
                value, wanted = f"#{value}", f"#{wanted}"
            value, wanted = (
                re.sub(
                    r"#([A-Za-z_]\w*)",
                    lambda hit, seen=seen: f"#id{seen.setdefault(hit[1], len(seen))}",
                    text,
                )
                if name == "id" or "href" in name or "url(#" in text
                else text
                for text, seen in zip((value, wanted), names, strict=True)
            )
            where = f"{one.tag.partition('}')[2]} {name}"
            assert _NUMBER.sub("0", value) == _NUMBER.sub("0", wanted), where
            numbers = [
                [float(n.replace(",", "")) for n in _NUMBER.findall(text)]
                for text in (value, wanted)
            ]
            np.testing.assert_allclose(*numbers, rtol=0, atol=_POINTS, err_msg=where)


def _pixels(address: str) -> np.ndarray:
    from matplotlib.image import imread

    return imread(BytesIO(base64.b64decode(address.removeprefix(_PNG))), format="png")
