"""Programs that the parts start as processes of their own, and what they share."""
