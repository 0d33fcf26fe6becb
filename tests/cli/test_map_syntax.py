"""The language of --map: what it says, what it refuses, and that spelling is the inverse of
reading.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercer import Composed, RandomFourier, Stacked
from mercer.cli._map_syntax import (
    Composition,
    MapSpec,
    build,
    completions,
    defaults,
    format_spec,
    parse,
    parse_value,
    spec_of_description,
)
from mercer.maps import registry


def test_a_name_is_the_map_with_its_defaults():
    assert parse("fourier") == MapSpec("fourier", {})
    made = build(parse("fourier"))
    assert type(made) is RandomFourier
    assert made.get_params() == RandomFourier().get_params()


def test_options_are_numbers_words_and_lists():
    text = "fourier:n_components=4096,gamma=1e-3,kernel=laplacian,normalize=true,random_state=none"
    expected = {
        "n_components": 4096,
        "gamma": 0.001,
        "kernel": "laplacian",
        "normalize": True,
        "random_state": None,
    }
    assert parse(text) == MapSpec("fourier", expected)
    assert parse("anchors:feature_range=(0, 1.5),kernel='jensen-shannon'").options == {
        "feature_range": (0, 1.5),
        "kernel": "jensen-shannon",
    }
    assert parse("anchors:kernel=jensen-shannon").options == {"kernel": "jensen-shannon"}
    assert parse("chi2-series:poles=[0.1, 0.5]").options == {"poles": [0.1, 0.5]}
    assert parse("fourier:gamma=1e+2 + pca").parts[0].options == {"gamma": 100.0}


def test_arrows_bind_tighter_than_plus():
    assert parse("hellinger + pca >> fourier") == Composition(
        "+",
        (MapSpec("hellinger", {}), Composition(">>", (MapSpec("pca", {}), MapSpec("fourier", {})))),
    )
    assert parse("(hellinger + pca) >> fourier") == Composition(
        ">>",
        (Composition("+", (MapSpec("hellinger", {}), MapSpec("pca", {}))), MapSpec("fourier", {})),
    )


def test_chains_are_flat_and_built_as_in_python():
    made = build(parse("chi2-series:n_terms=5 >> pca >> fourier:n_components=64"))
    assert isinstance(made, Composed)
    assert [type(part).__name__ for part in made.maps] == [
        "Chi2Series",
        "FeaturePCA",
        "RandomFourier",
    ]
    assert made.maps[-1].n_components == 64
    assert isinstance(build(parse("hellinger + gcws")), Stacked)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'' needs the name of a map at its end."),
        ("furier", "Did you mean 'fourier'?"),
        (
            "fourier:n_component=3",
            "fourier has no option 'n_component': its options are n_components, kernel",
        ),
        ("fourier:n_component=3", "Did you mean 'n_components'?"),
        ("fourier:gamma=1,gamma=2", "fourier: gamma is given twice."),
        ("fourier:gamma", "needs '=' and a value for gamma at its end"),
        ("fourier:gamma=1x", "where it has '1x'"),
        ("fourier:", "needs an option of fourier at its end"),
        ("fourier gcws", "needs '>>' or '+' between maps where it has 'gcws'"),
        ("(fourier", "needs ')' at its end"),
        ("fourier)", "where it has ')'"),
        ("fourier >>", "needs the name of a map at its end"),
        ("auto >> fourier", "'auto' is for mercer fit, where it stands alone"),
    ],
)
def test_what_it_does_not_know_is_a_sentence(text, sentence):
    with pytest.raises(ValueError) as caught:
        parse(text)
    assert sentence in str(caught.value)


names = st.sampled_from(sorted(registry()))
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(
        st.characters(codec="ascii", exclude_characters="\"'\\\r\n", min_codepoint=32),
        min_size=1,
        max_size=8,
    ).filter(lambda text: parse_value(f'"{text}"') == text),
    st.lists(st.integers(), max_size=3),
)


@st.composite
def specs(draw, depth=2):
    if depth and draw(st.booleans()):
        sign = draw(st.sampled_from([">>", "+"]))
        parts = draw(st.lists(specs(depth - 1), min_size=2, max_size=3))
        flat = [
            inner
            for one in parts
            for inner in (
                one.parts if isinstance(one, Composition) and one.operator == sign else [one]
            )
        ]
        return Composition(sign, tuple(flat))
    name = draw(names)
    options = draw(
        st.dictionaries(st.sampled_from(sorted(defaults(registry()[name]))), values, max_size=3)
    )
    return MapSpec(name, options)


@given(specs())
def test_spelling_is_the_inverse_of_reading(spec):
    assert parse(format_spec(spec)) == spec


def plain(value):
    return value is None or isinstance(value, bool | int | float | str | tuple)


@pytest.mark.parametrize("cls", registry().values(), ids=lambda cls: cls.name)
def test_every_case_of_every_map_is_spelt_and_built_again(cls):
    for case in cls.cases():
        params = case.get_params(deep=False)
        if all(plain(value) for value in params.values()):
            again = build(
                parse(format_spec(spec_of_description({"class": cls.__name__, **params})))
            )
            assert type(again) is cls
            assert again.get_params() == params


def test_a_text_is_completed_by_names_and_options():
    assert completions("gc") == ["gcws"]
    assert completions("hellinger >> fou") == ["hellinger >> fourier"]
    assert completions("gcws:bi") == ["gcws:bits="]
    assert completions("gcws:n_hashes=4,sch") == ["gcws:n_hashes=4,scheme="]
    assert completions("pca + (hellinger >> gcws:n_h") == ["pca + (hellinger >> gcws:n_hashes="]
    assert completions("nothing:x") == []
    assert set(completions("")) == set(registry())
