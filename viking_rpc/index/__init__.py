"""One account's tree as arrays: immutable snapshots, term lists, and the approximate index over vectors."""
