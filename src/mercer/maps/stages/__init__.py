"""The parts that maps are built from: a tile of rows in, a tile of rows out, frozen."""
