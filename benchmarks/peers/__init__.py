"""One tree, one set of queries, many systems: this project beside others, in turn, in one run."""
