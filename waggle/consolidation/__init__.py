"""Generated from protos/. Do not edit."""
