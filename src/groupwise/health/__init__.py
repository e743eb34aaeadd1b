"""Whether a run is healthy: rules over the stream of its steps, live and afterwards, on logs of other trainers too."""
