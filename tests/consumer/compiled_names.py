#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: compiled_names.py HEADERS LIBRARY

Looks in LIBRARY, ballast::compiled, for every function that a header below HEADERS declares with BALLAST_ONCE:
a part that forgets one links until a program calls it where no compiler has inlined it.
"""

import pathlib
import re
import subprocess
import sys

DECLARED = re.compile(r"\bBALLAST_ONCE\b(?P<before>[^;{}()]*?)(?P<name>~?\w+)\(")


def declared(folder: pathlib.Path) -> "dict[str, str]":
    """Names of functions, and a header of each; constructors have the name of their class."""
    found = {}
    for path in sorted(folder.rglob("*.hpp")):
        text = re.sub(r"//.*|^#.*", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for match in DECLARED.finditer(text):
            found.setdefault(match["name"], str(path.relative_to(folder)))
    return found


def main() -> int:
    headers, library = sys.argv[1:]
    symbols = subprocess.run(["nm", "-C", "--defined-only", library], check=True, capture_output=True,
                             text=True).stdout
    defined = set(re.findall(r"(~?\w+)(?:\[abi:\w+\])*\(", symbols))
    names = declared(pathlib.Path(headers))
    missing = [f"{header}: {name} is not in {library}" for name, header in names.items()
               if name not in defined]
    print("\n".join(missing) or f"all {len(names)} functions are in the library")
    return 1 if missing or len(names) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
