from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mercer.rng import Rng, seed_from


@given(seed=st.integers(0, 2**64 - 1), start=st.integers(0, 1000), count=st.integers(0, 50))
def test_a_word_depends_on_its_place_and_not_on_what_is_drawn_with_it(seed, start, count):
    rng = Rng(seed)
    np.testing.assert_array_equal(
        rng.words("w", start, count), rng.words("w", 0, start + count)[start:]
    )


def test_words_are_the_same_for_ever():
    assert Rng(0).words("weights", 0, 3).tolist() == GOLDEN_WORDS
    np.testing.assert_allclose(Rng(7).normal("weights", 2, 2), GOLDEN_NORMALS, rtol=1e-14)


def test_names_and_seeds_give_different_sequences():
    sequences = [Rng(seed).words(name, 0, 4).tolist() for seed in (0, 1) for name in ("a", "b")]
    assert len({tuple(words) for words in sequences}) == 4


def test_numbers_follow_their_laws():
    rng = Rng(3)
    assert stats.kstest(rng.uniform("u", 20000), "uniform").pvalue > 0.01
    assert stats.kstest(rng.normal("n", 20000), "norm").pvalue > 0.01
    assert stats.kstest(rng.chi("c", 5, 20000), stats.chi(5).cdf).pvalue > 0.01
    signs = rng.signs("s", 20000)
    assert set(signs) == {-1.0, 1.0}
    assert abs(signs.mean()) < 4 / np.sqrt(20000)


def test_the_open_interval_has_no_ends(monkeypatch):
    words = np.array([0, 2**64 - 1], dtype=np.uint64)
    monkeypatch.setattr(Rng, "words", lambda self, name, start, count: words)
    ends = Rng(0).uniform("u", 2)
    assert 0 < ends[0] < ends[1] < 1


def test_a_random_state_of_every_kind_gives_a_seed():
    assert seed_from("M", 5) == 5
    assert seed_from("M", np.int64(5)) == 5
    assert seed_from("M", np.random.default_rng(0)) == seed_from("M", np.random.default_rng(0))
    assert seed_from("M", np.random.RandomState(0)) == seed_from("M", np.random.RandomState(0))
    assert seed_from("M", None) != seed_from("M", None)


@pytest.mark.parametrize("bad", [-1, 2**64, 1.5, "0", True])
def test_what_is_no_random_state_is_refused(bad):
    with pytest.raises(ValueError, match="random_state must be None, an integer from 0 to"):
        seed_from("M", bad)


GOLDEN_WORDS = [15439582510959151522, 14451281538105040014, 3964203379666799529]
GOLDEN_NORMALS = [
    [-1.357523913853794, -1.3497173749166467],
    [-0.5577167043903933, -1.484361472911678],
]
