"""What people type: predicates and SQL, read into queries."""
