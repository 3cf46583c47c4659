"""Where servers come from. Each finder hands the pool a whole list whenever it changes."""
