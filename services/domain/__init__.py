"""The pure rules that services share: no gRPC, no I/O, no clock, no randomness."""
