# SPDX-FileCopyrightText: The preflight authors
# SPDX-License-Identifier: Apache-2.0
"""check_notebook.py NOTEBOOK: runs every cell; what a cell ends with comes out as a table or as a
picture. Last line: N passed, N failed."""
import ast
import sys

import nbclient
import nbformat
import traitlets.config


def wanted(source):
    """What a cell shows: "image/png" of plt.show(), "text/html" of another last expression."""
    last = ast.parse(source).body[-1]
    if not isinstance(last, ast.Expr):
        return None
    return "image/png" if ast.unparse(last) == "plt.show()" else "text/html"


def main():
    notebook = nbformat.read(sys.argv[1], as_version=4)
    nbformat.validate(notebook)
    local = traitlets.config.Config(ConnectionFileMixin={"transport": "ipc"})  # no port is open
    client = nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3",
                                     allow_errors=True, config=local)
    client.execute()
    failed = 0
    cells = [c for c in notebook.cells if c.cell_type == "code"]
    for i, cell in enumerate(cells):
        errors = [o for o in cell.outputs if o.output_type == "error"]
        shown = {kind for o in cell.outputs for kind in o.get("data", {})}
        want = wanted(cell.source)
        if errors or (want and want not in shown):
            failed += 1
            why = f"{errors[0].ename}: {errors[0].evalue}" if errors else f"shows no {want}"
            print(f"FAILED cell {i} ({cell.source.splitlines()[0]}): {why}")
    print(f"{len(cells) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
