"""The report of a run: one HTML file with what came of it, how it went, what it was made with, and how to repeat it."""
