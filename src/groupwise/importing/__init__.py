"""Configurations of other trainers, translated into groupwise's own."""
