"""PUBLIC: static private algorithms that the schedulers rerun as the data grow, one file each."""
