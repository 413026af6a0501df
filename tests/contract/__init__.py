"""What every store with leases does, whatever it is made of."""
