"""The whole suite behind Envoy under mixed load, failures and attacks, and the proof that nothing went wrong."""
