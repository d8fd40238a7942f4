"""Operations, each a file: its check, its price, its performance, and how its event is followed."""
