"""The language of maps: ``gcws:n_hashes=512,bits=8``, ``chi2-series >> fourier:n_components=4096``,
``hellinger + (pca >> fourier)``.

maps    = chain { "+" chain }        side by side
chain   = part { ">>" part }         one on the features of the other: binds tighter than +
part    = name [ ":" option { "," option } ]  |  "(" maps ")"
option  = parameter "=" value        a number, true, false, none, a word, a "quoted word", [a, list]
or (a, pair)
"""

from __future__ import annotations

import ast
import difflib
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from mercer.cli._signatures import Signature, maps

if TYPE_CHECKING:
    from mercer.maps.base import Map

_NAME = r"[A-Za-z_][\w-]*"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.])"
_VALUE = rf"""(?:{_NUMBER}|"[^"]*"|'[^']*'|\[[^\]]*\]|\([^)]*\)|{_NAME})"""
_WORDS = {"true": True, "false": False, "none": None}
_SIGNS: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, ">>": operator.rshift}


@dataclass(frozen=True)
class Named:
    """One registered map and the options that were given."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Joined:
    """Parts with ">>" or "+" between them."""

    sign: str
    parts: tuple[Named | Joined, ...]


def parse(text: str) -> Named | Joined:
    """What the text says.

    Raises
    ------
    ValueError
        With the place, or the nearest name, where it says nothing that is known.

    Examples
    --------
    >>> from mercer.cli._map_syntax import parse, spell
    >>> parse("gcws:n_hashes=512,bits=8")
    Named(name='gcws', options={'n_hashes': 512, 'bits': 8})
    >>> spell(parse("chi2-series:n_terms=5>>fourier:kernel=laplacian"))
    'chi2-series:n_terms=5 >> fourier:kernel=laplacian'
    """
    reader = _Reader(text)
    found = reader.several("+")
    if not reader.at_end():
        raise reader.error(
            "'>>' or '+' between maps" if reader.see(_NAME) else "'>>', '+' or the end"
        )
    return found


def build(spec: Named | Joined) -> Map:
    """The map itself, not fitted."""
    from mercer.maps import registry

    if isinstance(spec, Named):
        return registry()[spec.name](**spec.options)
    made: Map = reduce(_SIGNS[spec.sign], map(build, spec.parts))
    return made


def spell(spec: Named | Joined) -> str:
    """The text that parse reads as the same."""
    if isinstance(spec, Named):
        options = ",".join(f"{name}={_spell_value(value)}" for name, value in spec.options.items())
        return f"{spec.name}:{options}" if options else spec.name
    tight = spec.sign == ">>"
    parts = (
        f"({spell(one)})" if tight and isinstance(one, Joined) else spell(one) for one in spec.parts
    )
    return f" {spec.sign} ".join(parts)


def of_description(shown: Any) -> Named | Joined:
    """The map that ``mercer.persistence.io.describe`` shows as plain values, with the options that
    are not the defaults.
    """
    if isinstance(shown, str):
        return Named(shown, {})
    if isinstance(shown, list):
        return _joined("+", [of_description(one) for one in shown])
    signs = {"Composed": ">>", "Stacked": "+"}
    if shown["class"] in signs:
        return _joined(signs[shown["class"]], [of_description(one) for one in shown["maps"]])
    known = next(one for one in maps().values() if one.cls == shown["class"])
    assert known.name is not None
    given = {name: shown[name] for name in known.parameters if name in shown and name != "n_jobs"}
    return Named(
        known.name,
        {name: value for name, value in given.items() if not _is_default(known, name, value)},
    )


def of_map(feature_map: Any) -> Named | Joined:
    """A map that is in memory, without its seed: --seed is for that."""
    if hasattr(feature_map, "maps"):
        parts = [of_map(one) for one in feature_map.maps]
        return _joined({"Composed": ">>", "Stacked": "+"}[type(feature_map).__name__], parts)
    given = {
        name: value for name, value in feature_map.get_params().items() if name != "random_state"
    }
    return of_description({"class": type(feature_map).__name__, **given})


def literal(text: str) -> Any:
    """A value as it is written: a number, true, false, none, a quoted word, a list; any other text
    is a word.
    """
    if text.strip().lower() in _WORDS:
        return _WORDS[text.strip().lower()]
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError):
        return text.strip()


def nearest(word: str, known: list[str]) -> str:
    """ " Did you mean 'fourier'?", or nothing."""
    near = difflib.get_close_matches(word, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


class _Reader:
    """The text, and how far it is read."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0

    def several(self, sign: str) -> Named | Joined:
        parts = [self._chain_or_part(sign)]
        while self.take(re.escape(sign)):
            parts.append(self._chain_or_part(sign))
        return _joined(sign, parts)

    def _chain_or_part(self, sign: str) -> Named | Joined:
        return self.several(">>") if sign == "+" else self._part()

    def _part(self) -> Named | Joined:
        if self.take(r"\("):
            inside = self.several("+")
            if not self.take(r"\)"):
                raise self.error("')'")
            return inside
        name = self.take(_NAME)
        if name is None:
            raise self.error("the name of a map")
        known = _known(name)
        options: dict[str, Any] = {}
        if self.take(":"):
            self._option(known, options)
            while self.take(","):
                self._option(known, options)
        return Named(name, options)

    def _option(self, known: Signature, options: dict[str, Any]) -> None:
        name = self.take(r"[A-Za-z_]\w*")
        if name is None:
            raise self.error(f"an option of {known.name}")
        if name not in known.parameters:
            listed = ", ".join(known.parameters)
            raise ValueError(
                f"{known.name} has no option {name!r}: its options are "
                f"{listed}.{nearest(name, list(known.parameters))}"
            )
        if name in options:
            raise ValueError(f"{known.name}: {name} is given twice.")
        if not self.take("="):
            raise self.error(f"'=' and a value for {name}")
        value = self.take(_VALUE)
        if value is None:
            raise self.error(f"a value for {name}: a number, true, false, none, a word or a [list]")
        options[name] = literal(value)

    def take(self, pattern: str) -> str | None:
        """The next piece of text, when it is of that form."""
        found = re.compile(rf"\s*({pattern})\s*").match(self.text, self.place)
        if found is None:
            return None
        self.place = found.end()
        return found[1]

    def see(self, pattern: str) -> bool:
        return re.compile(rf"\s*{pattern}").match(self.text, self.place) is not None

    def at_end(self) -> bool:
        return not self.text[self.place :].strip()

    def error(self, needed: str) -> ValueError:
        rest = self.text[self.place :].strip()
        return ValueError(
            f"{self.text!r} needs {needed} {f'where it has {rest!r}' if rest else 'at its end'}."
        )


def _known(name: str) -> Signature:
    if name == "auto":
        raise ValueError(
            "'auto' is for mercer fit, where it stands alone: the map that mercer compare finds "
            "on your data."
        )
    if name not in maps():
        raise ValueError(
            f"There is no map {name!r}: maps are {', '.join(maps())}.{nearest(name, list(maps()))}"
        )
    return maps()[name]


def _joined(sign: str, parts: list[Named | Joined]) -> Named | Joined:
    """Parts of the same sign give theirs: (a + b) + c is a + b + c."""
    flat = [
        inner
        for one in parts
        for inner in (one.parts if isinstance(one, Joined) and one.sign == sign else [one])
    ]
    return flat[0] if len(flat) == 1 else Joined(sign, tuple(flat))


def _is_default(known: Signature, name: str, value: Any) -> bool:
    default = literal(known.parameters[name])
    return (type(value), value) == (type(default), default)


def _spell_value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        plain = re.fullmatch(_NAME, value) and value.lower() not in _WORDS
        return value if plain else f'"{value}"' if '"' not in value else f"'{value}'"
    if isinstance(value, dict) and "class" in value:
        return f"'{value['class']}'"
    if isinstance(value, dict):
        return "'an array'"
    return re.sub(r"\s", "", repr(value))


def completions(text: str) -> list[str]:
    """How a text that is not finished may go on: names of maps, and after ":" or "," options."""
    found = re.fullmatch(rf"(.*?(?:^|>>|\+|\()\s*)({_NAME}:)?((?:.*,)?)([\w-]*)", text)
    if found is None:
        return []
    before, name, options, word = found.groups(default="")
    if not name:
        return [before + known for known in maps() if known.startswith(word)] if not options else []
    known_map = maps().get(name[:-1])
    names = [] if known_map is None else known_map.parameters
    return [f"{before}{name}{options}{one}=" for one in names if one.startswith(word)]
