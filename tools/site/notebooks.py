"""Notebooks are run while the site is built, and their pages show what came out: they cannot rot.

In the repository they have no outputs. A cell that fails ends the build. Each runs in an empty folder.
"""

import base64
import os
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.structure.files import File, Files
from nbclient import NotebookClient
from traitlets.config import Config

SHELL = "%%bash\n"
SECONDS = 120  # for a cell
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def on_files(files: Files, config: Any) -> Files:
    found = [each for each in files if each.src_uri.endswith(".ipynb")]
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # cells call amsfl
    with ThreadPoolExecutor(2) as pool:
        notebooks = list(pool.map(run, [Path(file.abs_src_path) for file in found]))
    for file, notebook in zip(found, notebooks, strict=True):
        name = file.src_uri.removesuffix(".ipynb")
        files.append(File.generated(config, f"{name}.md", content=page(notebook, name, config, files)))
    return files


def run(path: Path) -> Any:
    """The notebook with its outputs."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        # sockets that are files, so that nobody else can reach the kernel
        own = {"transport": "ipc", "ip": f"{folder}/kernel"} if os.name != "nt" else {}
        where = {"metadata": {"path": folder}}
        settings = Config({"KernelManager": own})
        client = NotebookClient(notebook, config=settings, timeout=SECONDS, resources=where)
        return client.execute()


def page(notebook: Any, name: str, config: Any, files: Files) -> str:
    """The notebook as Markdown; pictures become files beside it."""
    parts = [f"[This page as a notebook]({Path(name).name}.ipynb){{ .notebook }}"]
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            parts.insert(0, cell.source) if not place else parts.append(cell.source)
            continue
        shell = cell.source.startswith(SHELL)
        language, source = ("bash", cell.source.removeprefix(SHELL)) if shell else ("python", cell.source)
        parts.append(fenced(source, language))
        for number, output in enumerate(joined(cell.outputs)):
            parts.append(shown(output, f"{name}-{place}-{number}", config, files))
    return "\n\n".join(parts) + "\n"


def joined(outputs: list[Any]) -> list[Any]:
    """Pieces of one stream as one."""
    found: list[Any] = []
    for output in outputs:
        if found and output.output_type == found[-1].output_type == "stream":
            found[-1].text += output.text
        else:
            found.append(output)
    return found


def shown(output: Any, name: str, config: Any, files: Files) -> str:
    if output.output_type == "stream":
        return fenced(COLOURS.sub("", output.text), "text", "output")
    data = output.data
    if "image/png" in data:
        picture = f"{name}.png"
        files.append(File.generated(config, picture, content=base64.b64decode(data["image/png"])))
        return f"![What the cell above draws]({Path(picture).name})"
    if "text/html" in data:
        return f'<div class="output">{"".join(data["text/html"].splitlines())}</div>'
    return fenced(data["text/plain"], "text", "output")


def fenced(text: str, language: str, style: str = "") -> str:
    extra = f" {{ .{language} .{style} }}" if style else language
    return f"````{extra}\n{text.rstrip()}\n````"
