"""The demonstration: a year of real flights, day by day, in a vault. The flights are public."""
