"""What a durable store writes: lines, what they say about rows, and files that are whole or absent."""
