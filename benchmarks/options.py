"""Command line options that every benchmark takes, and what they mean."""

from pathlib import Path
from typing import Annotated

import typer

from benchmarks import rows
from benchmarks.datasets.base import DataMissingError

DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data", envvar="JAZZ_BENCH_DATA", help="Folder of the published files; README says where to get them."
    ),
]
ModelsFolder = Annotated[
    Path | None,
    typer.Option(
        "--models", envvar="JAZZ_BENCH_MODELS", help="Folder of ONNX model folders, each measured by fastembed."
    ),
]
Embedders = Annotated[
    list[str] | None,
    typer.Option(
        "--embedder",
        help="static, minilm, fastembed:NAME or fastembed:NAME@FOLDER; may be repeated. "
        "Default: static, minilm and those of --models.",
    ),
]
Seeds = Annotated[str, typer.Option(help="Seeds of the reported mean.")]
Unclean = Annotated[
    bool, typer.Option("--unclean", help="Measure what is not committed as well: a look, nothing is stored.")
]


def opened_book(question: str, key: tuple[str, ...], *, look: bool) -> rows.Book:
    """Where the rows go, or an end with one message where nothing could be stored."""
    try:
        return rows.Book(question, key, look=look)
    except rows.UncleanError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None


def data_folder(data: Path | None) -> Path:
    """The data folder, or an end with one message that says how to name it."""
    if data is None:
        typer.echo(
            "Name the data folder with --data or JAZZ_BENCH_DATA; benchmarks/README.md says where to get the files.",
            err=True,
        )
        raise typer.Exit(2)
    return data


def embedder_specs(embedders: list[str] | None, models: Path | None) -> list[str]:
    """The embedders asked for; else the two that come in wheels, and every model in the models folder."""
    if embedders:
        return embedders
    folders = sorted(file.parent for file in models.glob("*/model.onnx")) if models else []
    return ["static", "minilm", *(f"fastembed:{folder.name}@{folder}" for folder in folders)]


def embedder_label(spec: str) -> str:
    """The embedder without the folder it lies in, which differs from machine to machine."""
    return spec.partition("@")[0]


def parsed_seeds(text: str) -> list[int]:
    """Seeds from "1,2,3"."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        msg = f"{text!r} is no list of numbers such as 1,2,3"
        raise typer.BadParameter(msg) from None


def no_data(error: DataMissingError) -> typer.Exit:
    """The end of a run that lacks a file: its one message, and no traceback."""
    typer.echo(str(error), err=True)
    return typer.Exit(2)
