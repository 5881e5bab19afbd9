"""Look the pinned packages up among known holes, and list the licence of each.

    python tools/audit.py [licences.md]

pip-audit is installed into a folder of its own, which is removed afterwards. Where the network does
not let it look anything up, this says that it did not run. Ends with 1 where a hole is known.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import venv
from importlib import metadata
from pathlib import Path

HOME = Path(__file__).parents[1]
AUDIT = "pip-audit==2.10.1"
FILES = [HOME / "requirements" / name for name in ("run.txt", "dev.txt")]


def audited() -> list[dict] | None:
    """Return what pip-audit says of each pinned package; None where it cannot be had."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        install = [python, "-m", "pip", "install", "--quiet", AUDIT]
        if subprocess.run(install, capture_output=True).returncode:
            return None
        words = [python, "-m", "pip_audit", "--format", "json", "--disable-pip", "--no-deps"]
        words += [word for file in FILES for word in ("--requirement", str(file))]
        done = subprocess.run(words, capture_output=True, text=True)
    try:
        return json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return None


def licences() -> list[tuple[str, str, str]]:
    """Return the name, version and licence of every pinned package that is installed."""
    out = []
    for file in FILES:
        lines = file.read_text(encoding="utf-8").splitlines()
        for name in (line.split("==")[0] for line in lines if "==" in line):
            about = metadata.metadata(name)
            kinds = [c.split(" :: ")[-1] for c in about.get_all("Classifier", []) if "License" in c]
            own = about.get("License-Expression") or "; ".join(kinds) or about.get("License") or ""
            out.append((name, about["Version"], " ".join(own.split())[:60] or "not said"))
    return sorted(set(out))


def main() -> int:
    """Print both, the licences to a file if one is named; return the exit code."""
    table = ["| package | version | licence |", "|---|---|---|"]
    table += [f"| {' | '.join(row)} |" for row in licences()]
    if sys.argv[1:]:
        Path(sys.argv[1]).write_text("\n".join(table) + "\n", encoding="utf-8")
    else:
        print("\n".join(table))
    found = audited()
    looked = [each for each in found or [] if "vulns" in each]
    if not looked:
        print("pip-audit did not run: the network does not let it look anything up")
        return 0
    holes = [(d["name"], d["version"], v["id"]) for d in looked for v in d["vulns"]]
    for hole in holes:
        print("known hole:", *hole)
    print(f"pip-audit: {len(looked)} of {len(found or [])} packages looked up, {len(holes)} holes")
    return bool(holes)


if __name__ == "__main__":
    sys.exit(main())
