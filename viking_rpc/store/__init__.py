"""The truth on disk, and the snapshots that are derived from it."""
