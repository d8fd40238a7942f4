"""The page: what people see at the server's address, rendered here; its script only puts it in place."""
