"""Any configuration explained: its objective as an equation, its techniques, what they cost, and what is wrong."""
