"""What a store may do, as a small model: explored completely, and walked at random."""
