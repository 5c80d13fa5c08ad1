"""Declarations without a documented JSON form are found when shapes are read, not when a request comes."""

from __future__ import annotations

import pytest

from services.gateway.message_shape import MessageShapes, UnsupportedShape
from tests.unit.gateway.sample_protos import compile_proto

UNION = "option (waggle.json.v1.union)"


@pytest.mark.parametrize(
    "declaration",
    [
        "message M { bytes data = 1; }",
        "message M { map<string, string> labels = 1; }",
        "message M { uint32 n = 1 [(waggle.json.v1.field).raw = true]; }",
        "message M { string s = 1 [(waggle.json.v1.field).raw_object = true]; }",
        "message M { string s = 1 [(waggle.json.v1.field).omit_unset = true]; }",
        "message M { uint32 n = 1 [(waggle.json.v1.field).nullable = true]; }",
        "message M { option (waggle.json.v1.message).transparent = true; string a = 1; string b = 2; }",
        f"message M {{ oneof u {{ {UNION} = {{style: STYLE_TAGGED}}; E a = 1; }} }} message E {{}}",
        f'message M {{ oneof u {{ {UNION} = {{style: STYLE_TAGGED, discriminator: "t"}}; string a = 1; }} }}',
        f"message M {{ string x = 9; oneof u {{ {UNION} = {{style: STYLE_EXTERNAL}}; string a = 1; }} }}",
        (
            f'message M {{ string id = 9; oneof u {{ {UNION} = {{style: STYLE_TAGGED, discriminator: "t"}}; E a = 1; }}'
            " } message E { string id = 1; }"
        ),
        (
            f'message M {{ oneof u {{ {UNION} = {{style: STYLE_TAGGED, discriminator: "id"}}; E a = 1; }} }}'
            " message E { string id = 1; }"
        ),
        (
            f'message M {{ oneof u {{ {UNION} = {{style: STYLE_TAGGED, discriminator: "t"}}; E a = 1; }}'
            f' oneof v {{ {UNION} = {{style: STYLE_TAGGED, discriminator: "s"}}; E b = 2; }} }} message E {{}}'
        ),
    ],
)
def test_it_is_refused(declaration: str) -> None:
    """A fault of the protos stops the process at start."""
    descriptors = compile_proto(declaration)
    with pytest.raises(UnsupportedShape):
        MessageShapes(descriptors).shape(descriptors.pool.FindMessageTypeByName("sample.M"))


def test_comments_are_kept_by_full_name() -> None:
    """Comments above declarations become descriptions."""
    descriptors = compile_proto(
        """
        // A thing.
        // With two lines.
        message M {
          // Its name.
          string name = 1;
          message Inner {
            // Deep.
            string id = 1;
          }
        }
        """
    )
    assert descriptors.comment("sample.M") == "A thing.\nWith two lines."
    assert descriptors.comment("sample.M.name") == "Its name."
    assert descriptors.comment("sample.M.Inner.id") == "Deep."
    assert descriptors.comment("sample.M.Inner") == ""
