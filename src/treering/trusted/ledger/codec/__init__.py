"""The codec of the ledger: events as lines of JSON, and back."""
