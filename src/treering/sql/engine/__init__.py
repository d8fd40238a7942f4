"""DuckDB over released tables: in this process, or in processes of its own that can be killed."""
