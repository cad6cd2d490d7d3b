"""The protos are linted and commented, and the generated code and service config follow from them."""

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import ServiceDescriptor

from viking_rpc.pb import service_config
from viking_rpc.pb.v1 import admin_service_pb2, context_pb2, context_service_pb2, retrieval_service_pb2

ROOT = Path(__file__).resolve().parents[2]
PROTOS = ROOT / "protos"
BUF = Path(sys.executable).parent / "buf"
FILES = (context_pb2, context_service_pb2, retrieval_service_pb2, admin_service_pb2)
SERVICES: list[ServiceDescriptor] = [service for m in FILES for service in m.DESCRIPTOR.services_by_name.values()]


def run(*command: str | Path) -> bytes:
    """Run a command that must succeed and return what it printed."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode(errors="replace")
    return done.stdout


@pytest.fixture(scope="module")
def sources() -> list[descriptor_pb2.FileDescriptorProto]:
    """The files of viking.v1 as buf compiles them, with their comments."""
    image = run(BUF, "build", PROTOS, "--as-file-descriptor-set", "-o", "-#format=binpb")
    files = descriptor_pb2.FileDescriptorSet.FromString(image).file
    return [file for file in files if file.package == "viking.v1"]


def fields_of(messages: Iterator[descriptor_pb2.DescriptorProto]) -> Iterator[descriptor_pb2.FieldDescriptorProto]:
    """Every field of messages, nested ones included."""
    for message in messages:
        yield from message.field
        yield from fields_of(iter(message.nested_type))


def elements(file: descriptor_pb2.FileDescriptorProto) -> Iterator[tuple[tuple[int, ...], str]]:
    """Descriptor path and name of every element that a reader of the contract sees."""
    for i, message in enumerate(file.message_type):
        yield (4, i), message.name
        yield from (((4, i, 2, k), f"{message.name}.{field.name}") for k, field in enumerate(message.field))
        for k, oneof in enumerate(message.oneof_decl):
            if not oneof.name.startswith("_"):
                yield (4, i, 8, k), f"{message.name}.{oneof.name}"
    for i, enum in enumerate(file.enum_type):
        yield (5, i), enum.name
        yield from (((5, i, 2, k), value.name) for k, value in enumerate(enum.value))
    for i, service in enumerate(file.service):
        yield (6, i), service.name
        yield from (((6, i, 2, k), f"{service.name}.{rpc.name}") for k, rpc in enumerate(service.method))


def test_generated_code_is_what_the_pinned_generator_makes() -> None:
    run(sys.executable, PROTOS / "generate.py", "--check")


def test_generator_pin_is_what_the_generated_code_asks_of_grpcio() -> None:
    pin = re.search(
        r'^GENERATOR = \("grpcio-tools", "(.+)"\)$', (PROTOS / "generate.py").read_text("utf-8"), re.MULTILINE
    )
    assert pin is not None
    code = (ROOT / "viking_rpc/pb/v1/retrieval_service_pb2_grpc.py").read_text("utf-8")
    assert f"GRPC_GENERATED_VERSION = '{pin[1]}'" in code


def test_loaded_descriptors_equal_the_sources(sources: list[descriptor_pb2.FileDescriptorProto]) -> None:
    """Independent of the generator: another compiler reads the sources."""
    loaded = {}
    for module in FILES:
        module.DESCRIPTOR.CopyToProto(file := descriptor_pb2.FileDescriptorProto())
        loaded[file.name] = file
    compiled = {}
    for source in sources:
        compiled[source.name] = file = descriptor_pb2.FileDescriptorProto.FromString(source.SerializeToString())
        file.ClearField("source_code_info")
    for file in itertools.chain(loaded.values(), compiled.values()):
        for field in fields_of(iter(file.message_type)):
            field.ClearField("json_name")
    assert loaded == compiled


def test_buf_lint_passes() -> None:
    run(BUF, "lint", PROTOS)


def test_every_element_has_a_comment_that_says_something(sources: list[descriptor_pb2.FileDescriptorProto]) -> None:
    wanting = []
    for file in sources:
        comments = {tuple(place.path): place.leading_comments for place in file.source_code_info.location}
        for path, name in elements(file):
            comment = comments.get(path, "").strip()
            # A sentence, or the name of the value that an unspecified one stands for.
            if not comment.endswith((".", ":")) or "TODO" in comment:
                wanting.append(f"{file.name}: {name}: {comment!r}")
    assert wanting == []


def test_zero_of_every_enum_is_unspecified() -> None:
    zeros = [
        enum.values_by_number[0].name.removeprefix(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", enum.name).upper())
        for module in FILES
        for enum in module.DESCRIPTOR.enum_types_by_name.values()
    ]
    assert set(zeros) == {"_UNSPECIFIED"}


def test_reflection_shows_the_files_under_their_published_names() -> None:
    assert [module.DESCRIPTOR.name for module in FILES] == [
        "viking/v1/context.proto",
        "viking/v1/context_service.proto",
        "viking/v1/retrieval_service.proto",
        "viking/v1/admin_service.proto",
    ]


def test_messages_know_the_module_they_live_in() -> None:
    assert retrieval_service_pb2.RetrieveRequest.__module__ == "viking_rpc.pb.v1.retrieval_service_pb2"


def config_entries() -> list[tuple[str, dict[str, object]]]:
    """Each method that the service config names, with its entry."""
    config = json.loads(service_config())["methodConfig"]
    return [(f"{name['service']}/{name['method']}", entry) for entry in config for name in entry["name"]]


def test_service_config_names_every_method_once_and_no_other() -> None:
    methods = sorted(f"{service.full_name}/{rpc.name}" for service in SERVICES for rpc in service.methods)
    assert sorted(name for name, _ in config_entries()) == methods


def test_service_config_retries_only_what_is_safe_to_repeat() -> None:
    safe = {
        f"{service.full_name}/{rpc.name}"
        for service in SERVICES
        for rpc in service.methods
        if rpc.GetOptions().idempotency_level != descriptor_pb2.MethodOptions.IDEMPOTENCY_UNKNOWN
    }
    assert {name for name, entry in config_entries() if "retryPolicy" in entry} == safe


def test_service_config_bounds_every_call_but_the_import_stream() -> None:
    unbounded = [name for name, entry in config_entries() if "timeout" not in entry]
    assert unbounded == ["viking.v1.ContextService/ImportContexts"]
