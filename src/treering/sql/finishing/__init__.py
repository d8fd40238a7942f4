"""The second stage: what is made of released numbers, and the margin beside each."""
