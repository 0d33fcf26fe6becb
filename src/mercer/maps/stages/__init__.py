"""Stages: frozen functions of a tile of rows, which tile transforms are composed of."""
