"""Surrogates, advantage estimators and masks of the user's own: `{type: function, path: FILE.py:NAME}`."""
