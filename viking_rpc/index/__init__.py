"""Search structures of one tree: arrays, term lists, seeds and immutable snapshots."""
