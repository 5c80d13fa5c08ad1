"""The edge process: Envoy on the deployed configuration, with the addresses of this machine put in."""
