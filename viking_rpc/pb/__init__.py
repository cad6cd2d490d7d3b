"""The wire contract in Python: generated messages and stubs (v1) and the gRPC service config of clients."""

from importlib.resources import files


def service_config() -> str:
    """Read the service config, with the deadlines and retries of every RPC.

    Returns:
        JSON text for the channel option "grpc.service_config".
    """
    return (files(__name__) / "service_config.json").read_text(encoding="utf-8")
