"""The page: what people see at the server's address. Rendered here, from templates; the script only puts it in place."""
