"""Whether all that a store holds fits together: pure rules over (key, value) streams, whoever wrote them."""
