"""What every process needs: clock, identifiers, logging, the gRPC server, errors as statuses, request validation."""
