"""Which server keeps which stored response: told by the gateway that saw it made, asked for by the others."""
