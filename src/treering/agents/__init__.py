"""A vault as tools for a language model's agent, over the Model Context Protocol."""
