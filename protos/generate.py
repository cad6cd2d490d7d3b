"""Generate viking_rpc/pb from the protos: `python protos/generate.py`, or `--check` to compare without writing.

The generated code refuses to run on a protobuf or grpcio older than its generator, so the generator's version is the
floor for everyone who installs the package. It is therefore pinned, below and in the dev extra: output is a function of
the protos alone, and the floor moves only on purpose.
"""

import argparse
import importlib.metadata
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

# protoc 31.1: its code needs protobuf >= 6.31.1 and grpcio >= 1.75.1. Has wheels for Python 3.11 to 3.14; 1.74 has none
# for 3.14.
GENERATOR = ("grpcio-tools", "1.75.1")

PROTOS = Path(__file__).resolve().parent
PACKAGE = PROTOS.parent / "viking_rpc" / "pb"
SOURCES = tuple(sorted(path.relative_to(PROTOS).as_posix() for path in (PROTOS / "viking").rglob("*.proto")))

# protoc places modules by the proto's path (viking/v1) while ours live in a package: imports become relative and the
# recorded module name is the real one. File names inside the descriptors, which reflection shows, stay as they are.
_IMPORT = re.compile(r"^from viking\.v1 import (?=\w+_pb2 as )", re.MULTILINE)
_MODULE = re.compile(r"'viking\.v1\.(?=\w+_pb2')")

_SERVICER_HEAD = """\
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

"""


def _has_service(source: str) -> bool:
    return re.search(r"^service ", (PROTOS / source).read_text(encoding="utf-8"), re.MULTILINE) is not None


def _grpc_stub(descriptor_set: bytes, source: str) -> str:
    """Write the type stub of a _pb2_grpc module, which protoc does not.

    Args:
        descriptor_set: serialized FileDescriptorSet with every source.
        source: the proto file's name in it.

    Returns:
        Text of the .pyi. Servicers are typed for grpc.aio; a stub's methods stay open, for they return a response on a
        synchronous channel and an awaitable on an asyncio one.
    """
    from google.protobuf import descriptor_pb2

    files = {file.name: file for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set).file}
    owner = {f".{file.package}.{message.name}": name for name, file in files.items() for message in file.message_type}
    modules: set[str] = set()

    def python_name(message: str) -> str:
        module = Path(owner[message]).stem + "_pb2"
        modules.add(module)
        return f"{module}.{message.rpartition('.')[2]}"

    body: list[str] = []
    for service in files[source].service:
        stub, servicer = [], []
        for method in service.method:
            request, response = python_name(method.input_type), python_name(method.output_type)
            argument = f"request: {request}"
            if method.client_streaming:
                argument = f"request_iterator: AsyncIterator[{request}]"
            result = f"AsyncIterator[{response}]" if method.server_streaming else f"Awaitable[{response}]"
            stub.append(f"    {method.name}: Callable[..., Any]")
            servicer.append(f"    def {method.name}(self, {argument}, context: Any) -> {result}: ...")
        body += [f"class {service.name}Stub:", "    def __init__(self, channel: Any) -> None: ...", *stub, ""]
        body += [f"class {service.name}Servicer:", *servicer, ""]
        add = f"add_{service.name}Servicer_to_server"
        body += [f"def {add}(servicer: {service.name}Servicer, server: Any) -> None: ...", ""]
    imports = "".join(f"from . import {module}\n" for module in sorted(modules))
    return _SERVICER_HEAD + imports + "\n" + "\n".join(body)


def generate(out: Path) -> Iterator[tuple[str, bytes]]:
    """Generate into a scratch folder and yield what belongs under viking_rpc/pb.

    Args:
        out: an empty folder.

    Yields:
        Path relative to viking_rpc/pb, and content.

    Raises:
        SystemExit: the generator is not the pinned one, or protoc refused the sources.
    """
    name, wanted = GENERATOR
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    if found != wanted:
        message = f"{name}=={wanted} is needed, found {found}: pip install {name}=={wanted}"
        raise SystemExit(message)

    import grpc_tools
    from grpc_tools import protoc

    descriptor_set = out / "descriptor_set.binpb"
    arguments = ["protoc", f"-I{PROTOS}", f"-I{Path(grpc_tools.__file__).parent / '_proto'}"]
    arguments += [f"--{kind}_out={out}" for kind in ("python", "pyi", "grpc_python")]
    arguments += ["--include_imports", f"--descriptor_set_out={descriptor_set}", *SOURCES]
    if code := protoc.main(arguments):
        raise SystemExit(code)

    # protoc writes an empty _pb2_grpc module for a file without services; those are left out.
    with_services = {f"{Path(source).stem}_pb2_grpc": source for source in SOURCES if _has_service(source)}
    for path in sorted((out / "viking" / "v1").iterdir()):
        if path.stem.endswith("_pb2_grpc") and path.stem not in with_services:
            continue
        text = _IMPORT.sub("from . import ", path.read_text(encoding="utf-8"))
        yield f"v1/{path.name}", _MODULE.sub("'viking_rpc.pb.v1.", text).encode()
    for module, source in with_services.items():
        yield f"v1/{module}.pyi", _grpc_stub(descriptor_set.read_bytes(), source).encode()
    yield "v1/__init__.py", b'"""Generated from protos/viking/v1 by protos/generate.py."""\n'
    yield "service_config.json", (PROTOS / "service_config.json").read_bytes()


def main(arguments: list[str] | None = None) -> int:
    """Write the generated package, or compare it with `--check`.

    Args:
        arguments: command line; None takes the process's own.

    Returns:
        0 when written or up to date, 1 when `--check` found a difference.
    """
    parser = argparse.ArgumentParser(description="Generate viking_rpc/pb from the protos.")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 and name what differs")
    is_check = parser.parse_args(arguments).check

    with tempfile.TemporaryDirectory() as scratch:
        fresh = dict(generate(Path(scratch)))
    present = {
        path.relative_to(PACKAGE).as_posix(): path.read_bytes()
        for path in [*(PACKAGE / "v1").glob("*.py*"), PACKAGE / "service_config.json"]
        if path.is_file()
    }
    differing = sorted(name for name in fresh.keys() | present.keys() if fresh.get(name) != present.get(name))
    if is_check:
        for name in differing:
            sys.stderr.write(f"stale: viking_rpc/pb/{name}; run python protos/generate.py\n")
        return 1 if differing else 0

    for name in differing:
        target = PACKAGE / name
        if name in fresh:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(fresh[name])
        else:
            target.unlink()
        sys.stdout.write(f"{'wrote' if name in fresh else 'removed'} viking_rpc/pb/{name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
