"""The process that starts sandboxed programs: small, single-threaded, without any package, so that forking it is cheap
and safe however large and threaded the trainer is."""
