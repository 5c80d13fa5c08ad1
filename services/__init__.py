"""The processes of the suite and the rules that they share."""
