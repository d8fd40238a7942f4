"""Commands that ask: what is asked, in a folder or on a server, and where results are put."""
