"""The documented JSON routes: strict JSON to protobuf and back, derived from the descriptors."""
