"""Whether a store can be trusted on this machine, found out by trying."""
