"""`treering demo`: a year of real, public flights, appended to a vault day by day, with queries and a model."""
