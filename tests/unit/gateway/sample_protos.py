"""Small protos that use every way in which documented JSON differs from protobuf's, compiled for the tests."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import grpc_tools
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc

from services.gateway.descriptors import Descriptors
from services.gateway.json_decoder import DecoderCompiler, MessageDecoder
from services.gateway.json_encoder import EncoderCompiler, MessageEncoder
from services.gateway.message_shape import MessageShapes

_ROOT = Path(__file__).resolve().parents[3]

SAMPLE = """
message Everything {
  uint64 revision = 1;
  int64 at_millis = 2;
  uint32 count = 3;
  optional int32 offset = 4;
  double score = 5;
  float weight = 6;
  bool flag = 7;
  string name = 8;
  Colour colour = 9;
  Inner inner = 10;
  repeated string tags = 11;
  repeated double vector = 12;
  repeated float narrow = 13;
  repeated Colour colours = 14;
  repeated Inner inners = 15;
  repeated uint64 revisions = 16;
}
enum Colour {
  COLOUR_UNSPECIFIED = 0;
  COLOUR_RED = 1 [(waggle.json.v1.word) = "red"];
  COLOUR_DEEP_BLUE = 2 [(waggle.json.v1.word) = "deep_blue"];
}
message Inner {
  string id = 1 [(waggle.json.v1.field).required = true];
}
message Presence {
  optional string plain = 1;
  optional string nullable = 2 [(waggle.json.v1.field).nullable = true];
  optional string omitted = 3 [(waggle.json.v1.field) = {nullable: true, omit_unset: true}];
  repeated string listed = 4;
  repeated string hidden_when_empty = 5 [(waggle.json.v1.field) = {omit_empty: true, nullable: true}];
  Inner inner = 6;
  string grpc_only = 7 [(waggle.json.v1.field).hidden = true];
  string from_place = 8 [(waggle.json.v1.field).name = "from"];
  string class = 9;
}
message Raw {
  optional string data = 1 [(waggle.json.v1.field) = {raw: true, nullable: true}];
  optional string any = 2 [(waggle.json.v1.field).raw = true];
  optional string metadata = 3 [(waggle.json.v1.field) = {raw: true, raw_object: true}];
}
message Required {
  uint32 contract_version = 1 [(waggle.json.v1.field).required = true, (waggle.json.v1.rules).const_int = 1];
  optional string note = 2 [(waggle.json.v1.field) = {required: true, nullable: true}];
  uint32 dimensions = 3 [(waggle.json.v1.rules).reason = "embedding_dimension_limit"];
}
message Tagged {
  string key = 1 [(waggle.json.v1.field).required = true];
  oneof operation {
    option (waggle.json.v1.union) = {style: STYLE_TAGGED, discriminator: "type"};
    Move move = 2;
    Stop stop = 3;
    Move shift = 4 [(waggle.json.v1.field).name = "side_step"];
  }
}
message Move { uint32 distance = 1 [(waggle.json.v1.field).required = true]; optional string note = 2; }
message Stop {}
message HoldsKind { Kind kind = 1 [(waggle.json.v1.field).nullable = true]; }
message Kind {
  oneof kind {
    option (waggle.json.v1.union) = {style: STYLE_EXTERNAL};
    Colour colour = 1;
    string custom = 2 [(waggle.json.v1.field).name = "Custom"];
  }
}
message HoldsList { List list = 1 [(waggle.json.v1.field).nullable = true]; }
message List {
  option (waggle.json.v1.message).transparent = true;
  repeated double values = 1;
}
message Tree { string name = 1; repeated Tree children = 2; optional Tree parent = 3; }
"""


def compile_proto(declarations: str) -> Descriptors:
    """Compile declarations of the package "sample" as protoc does, options included."""
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "sample.proto"
        source.write_text(
            'syntax = "proto3"; package sample; import "waggle/json/v1/options.proto";'
            'import "google/api/annotations.proto";' + declarations,
            encoding="utf-8",
        )
        output = Path(directory) / "set.binpb"
        google_api = _site_packages()
        includes = [directory, str(_ROOT / "protos"), str(Path(grpc_tools.__file__).parent / "_proto"), google_api]
        arguments = ["protoc", *(f"-I{path}" for path in includes), "--include_imports", "--include_source_info"]
        if protoc.main([*arguments, f"--descriptor_set_out={output}", str(source)]) != 0:
            raise AssertionError("the sample does not compile")
        return Descriptors(FileDescriptorSet.FromString(output.read_bytes()))


def _site_packages() -> str:
    from google.api import annotations_pb2

    return str(Path(annotations_pb2.__file__).parents[2])


@cache
def sample() -> Descriptors:
    """The compiled sample."""
    return compile_proto(SAMPLE)


def decoder(name: str) -> MessageDecoder:
    """Decoder of a sample message."""
    return DecoderCompiler(MessageShapes(sample())).compile(sample().pool.FindMessageTypeByName(f"sample.{name}"))


def encoder(name: str) -> MessageEncoder:
    """Encoder of a sample message."""
    return EncoderCompiler(MessageShapes(sample())).compile(sample().pool.FindMessageTypeByName(f"sample.{name}"))


def message(name: str, /, **fields: Any) -> Any:
    """A sample message."""
    return sample().message_class(sample().pool.FindMessageTypeByName(f"sample.{name}"))(**fields)
