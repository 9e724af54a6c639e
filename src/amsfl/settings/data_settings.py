"""Settings of the data: where rows are, how a table is read, and who owns which rows."""

from typing import Any, Literal
from unicodedata import category

from pydantic import BaseModel, ConfigDict, Field, field_validator


class Settings(BaseModel):
    """What all groups have in common: nothing unknown, nothing infinite, no text that files cannot hold."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _text(cls, value: Any) -> Any:
        if isinstance(value, str) and any(category(letter) in ("Cc", "Cs") for letter in value):
            raise ValueError("it has control characters")
        return value


class DataSettings(Settings):
    """Which rows are trained on, how a table's columns are read, and who owns which rows."""

    data: str = Field(
        "nslkdd",
        description="a name of `amsfl data` (nslkdd, digits ...), a table (FILE.csv) or a folder of them",
    )
    data_dir: str | None = Field(None, description="folder of the NSL-KDD files")
    label: str | None = Field(None, description="label column of a table")
    client_column: str | None = Field(None, description="column of a table that says who owns a row")
    drop: str = Field("", description="columns of a table to leave out, with commas between")
    columns: str = Field(
        "",
        description="how columns are read, as in zip=words,id=keep; or number, date, hash, drop, day-first",
    )
    missing: str = Field("", description="words and numbers of a table that mean a gap, as in -999,unclear")
    task: Literal["auto", "classification", "regression"] = Field(
        "auto",
        description="what a table's label is; auto: a number if it has fractions or over 20 values",
    )
    binary: bool = Field(False, description="NSL-KDD: normal against attack instead of five classes")
    partition: str = Field(
        "auto",
        description="iid, dirichlet:0.5, shards:2, labels:2, quantity:1, column; auto: column if any, else "
        "dirichlet:0.5",
    )

    @field_validator("drop", "columns", "missing", mode="before")
    @classmethod
    def _names(cls, value: Any) -> Any:
        """Lists of names are taken as the text with commas that they mean."""
        return ",".join(map(str, value)) if isinstance(value, list | tuple) else value
