"""Spark in local mode, small and alone, and a table in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
from pyspark.sql import SparkSession

from support.engines import Files
from support.programs import java_home

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.log.level": "ERROR",
}


@contextmanager
def spark_session(folder: Path, **settings: str) -> Iterator[SparkSession]:
    """A session on two cores of this machine, listening to nobody else."""
    os.environ["JAVA_HOME"] = str(java_home())
    builder = SparkSession.builder.master("local[2]").config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    for name, value in {**SETTINGS, **settings}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


class SparkStage(Files):
    """A Spark table over a folder of Parquet files."""

    def __init__(self, session: Any, folder: Path) -> None:
        super().__init__(folder, "parquet")
        self.name = "spark"
        self.connection = ibis.pyspark.connect(session)
        self.table = f"rows_{self.folder.name.removeprefix('rows-')}"

    def create(self, rows: pa.Table) -> None:
        super().create(rows)
        # Compiling a statement for a handful of rows takes longer than reading them.
        self.connection.raw_sql(f"SET spark.sql.codegen.wholeStage = {str(rows.num_rows >= 400).lower()}")
        self.connection.raw_sql(f"DROP TABLE IF EXISTS {self.table}")
        self.connection.raw_sql(f"CREATE TABLE {self.table} USING parquet LOCATION '{self.folder.as_uri()}'")
        self.source = self.connection.table(self.table)
