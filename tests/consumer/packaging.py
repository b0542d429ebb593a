#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packaging.py SOURCE: what of packaging/ and of CITATION.cff can be checked without vcpkg and Conan."""
import ast
import json
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
number = int(re.search(r"#define BALLAST_VERSION (\d+)", (source / "include/ballast/version.hpp").read_text())[1])
version = f"{number // 10000}.{number // 100 % 100}.{number % 100}"

port = json.loads((source / "packaging/vcpkg/ballast/vcpkg.json").read_text())
assert port["name"] == "ballast" and port["version"] == version, port

recipe_file = source / "packaging/conan/conanfile.py"
for file in (recipe_file, recipe_file.parent / "test_package/conanfile.py"):
    compile(file.read_text(), str(file), "exec")
assigned = {
    node.targets[0].id: node.value
    for node in ast.walk(ast.parse(recipe_file.read_text()))
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
}
assert ast.literal_eval(assigned["version"]) == version, f"conanfile.py is to have version {version}"
for pattern in ast.literal_eval(assigned["TREE"]):
    assert list(source.glob(pattern)), f"conanfile.py copies {pattern}, which is not there"

citation = (source / "CITATION.cff").read_text()
assert f"\nversion: {version}\n" in citation, f"CITATION.cff is to have version {version}"
