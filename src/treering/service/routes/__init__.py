"""The endpoints, a file for each family, and how an endpoint learns who calls."""
