"""Folders and corpora in, contexts with rows out."""
