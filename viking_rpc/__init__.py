"""viking-rpc: directory-recursive context retrieval over gRPC."""
