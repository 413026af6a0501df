"""Attacks on one line: a crash, a pause or an error between any two of them."""
