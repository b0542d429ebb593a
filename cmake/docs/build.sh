#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# cmake/docs/build.sh OUTPUT: the site in OUTPUT/html, of the pages and of every public name's comment.
#
# Fails where a name of a namespace, a class or a macro has no comment, a link leads nowhere, or Doxygen
# complains of a comment. Members of a class may go without: what it says of itself explains them.
set -euo pipefail
output=$(realpath -m -- "${1:?usage: cmake/docs/build.sh OUTPUT}")
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

rm -rf "$output"
mkdir -p "$output"
{
  cat cmake/docs/Doxyfile
  echo INPUT = README.md docs/*.md CONTRIBUTING.md CHANGELOG.md SECURITY.md docs/notes docs/results docs/decisions include
  printf '%s\n' "PROJECT_NUMBER = $(sed -n 's|.*BALLAST_VERSION.*// ||p' include/ballast/version.hpp)" \
    "OUTPUT_DIRECTORY = $output" "WARN_LOGFILE = $output/warnings.txt"
} | ROOT=$PWD doxygen -

allowed='Member .*\) -> .* \(function\)|Member .* of (struct|class|union) .* is not documented|scope for class tl::'
if grep -Ev "$allowed" "$output/warnings.txt" | sed "s|^$PWD/||" | grep . >&2; then
  echo "docs: the lines above name what to mend" >&2
  exit 1
fi
echo "docs: $output/html/index.html"
