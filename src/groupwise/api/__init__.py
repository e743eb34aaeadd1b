"""What `import groupwise` offers to scripts and notebooks; see docs/api.md."""
