"""The gRPC edge: convert, run, answer."""
