"""Limits: overridden for the whole process, and restored."""

from __future__ import annotations

import threading

import pytest

from mercer.parallel.tile_size import (
    Cost,
    Limits,
    grid,
    is_checkpoint_due,
    is_worth_threads,
    limits,
    override_limits,
    set_limits,
    tile_rows,
)


def test_limits_are_overridden_inside_and_restored_after_an_error():
    assert limits() == Limits()
    with override_limits(max_block_rows=64, min_block_rows=64):
        with override_limits(max_tile_rows=20):
            assert (grid(4, 8).rows, tile_rows(Cost(1, 8))) == (64, 20)
        assert (grid(4, 8).rows, tile_rows(Cost(1, 8))) == (64, 512)
    with pytest.raises(KeyError), override_limits(max_block_rows=64):
        raise KeyError
    assert limits() == Limits()
    with pytest.raises(TypeError, match="no_such_limit"):
        set_limits(no_such_limit=1)


def test_other_threads_use_the_overridden_limits():
    rows = []
    with override_limits(min_block_rows=64, max_block_rows=64):
        thread = threading.Thread(target=lambda: rows.append(grid(4, 8).rows))
        thread.start()
        thread.join()
    assert rows == [64]


def test_thresholds_of_zero_and_infinity_are_always_and_never():
    with override_limits(thread_flops=0, checkpoint_cost_ratio=0):
        assert is_worth_threads(Cost(0, 0), 1) and is_checkpoint_due(0.0, 1e9)
    with override_limits(checkpoint_cost_ratio=float("inf")):
        assert not is_checkpoint_due(1e9, 1e-9) and not is_checkpoint_due(1e9, 0.0)
