"""Series: counts of groups kept current at a fixed price a row, by square roots or by trees over the same operation."""
