"""vLLM as the engine: in this process or as servers over HTTP, with proof of the weights that it holds."""
