"""Text syntax of feature maps: ``gcws:n_hashes=512,bits=8``, ``hellinger + (pca >> fourier)``.

maps    = chain { "+" chain }                 side by side
chain   = part { ">>" part }                  composition; binds tighter than +
part    = name [ ":" option { "," option } ]  |  "(" maps ")"
option  = parameter "=" value
value   = a number, true, false, none, a word, a "quoted word", [a, list] or (a, tuple)
"""

from __future__ import annotations

import ast
import difflib
import inspect
import operator
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer.maps.base import Map

_NAME = r"[A-Za-z_][\w-]*"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.])"
_VALUE = rf"""(?:{_NUMBER}|"[^"]*"|'[^']*'|\[[^\]]*\]|\([^)]*\)|{_NAME})"""
_CONSTANTS = {"true": True, "false": False, "none": None}
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {"+": operator.add, ">>": operator.rshift}
_COMPOSITIONS = {"Composed": ">>", "Stacked": "+"}


@dataclass(frozen=True)
class MapSpec:
    """A registered map and the options given for it."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Composition:
    """Specifications joined by an operator, ">>" or "+"."""

    operator: str
    parts: tuple[MapSpec | Composition, ...]


Spec = MapSpec | Composition


def registered_maps() -> dict[str, type[Map]]:
    """Return the map classes by name, sorted; imports them."""
    from mercer.maps import registry

    return dict(sorted(registry().items()))


def defaults(cls: type[Map]) -> dict[str, Any]:
    """Return the parameters of a map's constructor and their default values."""
    return {name: each.default for name, each in inspect.signature(cls).parameters.items()}


def parse(text: str) -> Spec:
    """Parse the text of a map.

    Raises
    ------
    ValueError
        With the position of a syntax error, or the nearest name of an unknown map or option.

    Examples
    --------
    >>> from mercer.cli._map_syntax import format_spec, parse
    >>> parse("gcws:n_hashes=512,bits=8")
    MapSpec(name='gcws', options={'n_hashes': 512, 'bits': 8})
    >>> format_spec(parse("chi2-series:n_terms=5>>fourier:kernel=laplacian"))
    'chi2-series:n_terms=5 >> fourier:kernel=laplacian'
    """
    parser = _Parser(text)
    spec = parser.sequence("+")
    if not parser.at_end():
        needed = "'>>' or '+' between maps" if parser.peek(_NAME) else "'>>', '+' or the end"
        raise parser.error(needed)
    return spec


def build(spec: Spec) -> Map:
    """Construct the map, not fitted."""
    if isinstance(spec, MapSpec):
        return registered_maps()[spec.name](**spec.options)
    composed: Map = reduce(_OPERATORS[spec.operator], map(build, spec.parts))
    return composed


def format_spec(spec: Spec) -> str:
    """Return the text that parse() reads as the same specification."""
    if isinstance(spec, MapSpec):
        options = ",".join(f"{name}={_format(value)}" for name, value in spec.options.items())
        return f"{spec.name}:{options}" if options else spec.name
    parts = [
        f"({format_spec(part)})"
        if spec.operator == ">>" and isinstance(part, Composition)
        else format_spec(part)
        for part in spec.parts
    ]
    return f" {spec.operator} ".join(parts)


def spec_of_description(description: Any) -> Spec:
    """Return the specification of a map as ``mercer.persistence.io.describe`` gives it.

    Options that have their default values are left out.
    """
    if isinstance(description, str):
        return MapSpec(description, {})
    if isinstance(description, list):
        return _compose("+", [spec_of_description(part) for part in description])
    class_name = description["class"]
    if class_name in _COMPOSITIONS:
        parts = [spec_of_description(part) for part in description["maps"]]
        return _compose(_COMPOSITIONS[class_name], parts)
    maps = registered_maps().items()
    name, cls = next((name, cls) for name, cls in maps if cls.__name__ == class_name)
    options = {
        parameter: description[parameter]
        for parameter, default in defaults(cls).items()
        if parameter in description
        and parameter != "n_jobs"
        and (type(description[parameter]), description[parameter]) != (type(default), default)
    }
    return MapSpec(name, options)


def spec_of_map(feature_map: Any) -> Spec:
    """Return the specification of a map without its random_state, which --seed gives."""
    class_name = type(feature_map).__name__
    if class_name in _COMPOSITIONS:
        parts = [spec_of_map(part) for part in feature_map.maps]
        return _compose(_COMPOSITIONS[class_name], parts)
    parameters = feature_map.get_params(deep=False)
    parameters.pop("random_state", None)
    return spec_of_description({"class": class_name, **parameters})


def parse_value(text: str) -> Any:
    """Return the value of a text: a number, true, false, none, a quoted word or a list.

    Any other text is returned as it is.
    """
    text = text.strip()
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError):
        return text


def completions(text: str) -> list[str]:
    """Return the completions of an unfinished text: names of maps, then names of options."""
    match = re.fullmatch(rf"(.*?(?:^|>>|\+|\()\s*)({_NAME}:)?((?:.*,)?)([\w-]*)", text)
    if match is None:
        return []
    before, name, options, word = match.groups(default="")
    maps = registered_maps()
    if not name:
        return [before + each for each in maps if each.startswith(word)] if not options else []
    parameters: Mapping[str, Any] = defaults(maps[name[:-1]]) if name[:-1] in maps else {}
    return [f"{before}{name}{options}{each}=" for each in parameters if each.startswith(word)]


class _Parser:
    """Recursive-descent parser: the text and the current position."""

    def __init__(self, text: str) -> None:
        self.text, self.position = text, 0
        self.maps = registered_maps()

    def sequence(self, sign: str) -> Spec:
        """Parse terms separated by an operator."""
        parts = [self._term(sign)]
        while self.match(re.escape(sign)):
            parts.append(self._term(sign))
        return _compose(sign, parts)

    def _term(self, sign: str) -> Spec:
        return self.sequence(">>") if sign == "+" else self._part()

    def _part(self) -> Spec:
        if self.match(r"\("):
            inside = self.sequence("+")
            if not self.match(r"\)"):
                raise self.error("')'")
            return inside
        name = self.match(_NAME)
        if name is None:
            raise self.error("the name of a map")
        cls = self._class(name)
        options: dict[str, Any] = {}
        if self.match(":"):
            self._option(name, cls, options)
            while self.match(","):
                self._option(name, cls, options)
        return MapSpec(name, options)

    def _class(self, name: str) -> type[Map]:
        if name == "auto":
            raise ValueError(
                "'auto' is for mercer fit, where it stands alone: it fits the map that mercer "
                "compare selects on your data."
            )
        if name not in self.maps:
            from mercer.maps import suggest_maps

            hint = suggest_maps(name) or _hint(name, self.maps)
            raise ValueError(f"There is no map {name!r}: maps are {', '.join(self.maps)}.{hint}")
        return self.maps[name]

    def _option(self, name: str, cls: type[Map], options: dict[str, Any]) -> None:
        option = self.match(r"[A-Za-z_]\w*")
        if option is None:
            raise self.error(f"an option of {name}")
        parameters = defaults(cls)
        if option not in parameters:
            raise ValueError(
                f"{name} has no option {option!r}: its options are {', '.join(parameters)}."
                f"{_hint(option, parameters)}"
            )
        if option in options:
            raise ValueError(f"{name}: {option} is given twice.")
        if not self.match("="):
            raise self.error(f"'=' and a value for {option}")
        value = self.match(_VALUE)
        if value is None:
            kinds = "a number, true, false, none, a word or a [list]"
            raise self.error(f"a value for {option}: {kinds}")
        options[option] = parse_value(value)

    def match(self, pattern: str) -> str | None:
        """Consume and return the text that matches at the current position."""
        match = re.compile(rf"\s*({pattern})\s*").match(self.text, self.position)
        if match is None:
            return None
        self.position = match.end()
        return match[1]

    def peek(self, pattern: str) -> bool:
        return re.compile(rf"\s*{pattern}").match(self.text, self.position) is not None

    def at_end(self) -> bool:
        return not self.text[self.position :].strip()

    def error(self, needed: str) -> ValueError:
        rest = self.text[self.position :].strip()
        where = f"where it has {rest!r}" if rest else "at its end"
        return ValueError(f"{self.text!r} needs {needed} {where}.")


def _hint(word: str, names: Collection[str]) -> str:
    """Return " Did you mean 'fourier'?", or an empty string."""
    near = difflib.get_close_matches(word, names, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _compose(sign: str, parts: list[Spec]) -> Spec:
    """Join parts, flattening nested ones: (a + b) + c is a + b + c."""
    flat: list[Spec] = []
    for part in parts:
        same = isinstance(part, Composition) and part.operator == sign
        flat += part.parts if isinstance(part, Composition) and same else [part]
    return flat[0] if len(flat) == 1 else Composition(sign, tuple(flat))


def _format(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        plain = re.fullmatch(_NAME, value) and value.lower() not in _CONSTANTS
        return value if plain else f'"{value}"' if '"' not in value else f"'{value}'"
    if isinstance(value, dict):
        return f"'{value['class']}'" if "class" in value else "'an array'"
    return re.sub(r"\s", "", repr(value))
