"""PUBLIC boxes: static private algorithms, one file each, which run once, or are rerun by a scheduler."""
