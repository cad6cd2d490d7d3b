"""The contract: protos, generated code and the wire."""
