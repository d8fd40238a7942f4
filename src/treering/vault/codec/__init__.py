"""Events as lines of the ledger, and back."""
