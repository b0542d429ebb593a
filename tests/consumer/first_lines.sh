#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# first_lines.sh SOURCE WHICH FOLDER: runs the lines that docs/installing.md has after
# <!-- run: WHICH --> in a copy of the tree, and their program has to print its plan.
#
# What they install with apt-get, as root, is unpacked to FOLDER/root instead, and used from there.
set -euo pipefail
source=$1 which=$2 folder=$3

rm -rf "$folder"
mkdir -p "$folder/tree" "$folder/bin" "$folder/root"
cd "$folder/tree"
cp -r "$source"/{CMakeLists.txt,CMakePresets.json,LICENSE,README.md,CHANGELOG.md,cmake,compiled,docs,examples,include} .
cat >"$folder/bin/sudo" <<END
#!/usr/bin/env bash
for package; do [[ \$package != *.deb ]] || dpkg-deb -x "\$package" "$folder/root"; done
END
chmod +x "$folder/bin/sudo"
export PATH=$folder/bin:$PATH

awk -v mark="<!-- run: $which -->" '
  $0 == mark { marked = 1 }
  marked && $0 == "```" { exit }
  in_block { print }
  marked && $0 == "```sh" { in_block = 1 }' docs/installing.md \
  | sed "s|/usr/|$folder/root/usr/|" >"$folder/lines.sh"
[[ $(wc -l <"$folder/lines.sh") == 3 ]] || { echo "expected three lines, got:"; cat "$folder/lines.sh"; exit 1; }

[[ $which != package ]] || export CPATH=$folder/root/usr/include
bash -euxo pipefail "$folder/lines.sh" | tee "$folder/printed.txt"
grep -q "at most 0.0 % above the best plan there is" "$folder/printed.txt"

if [[ $which == package ]]; then
  field() { dpkg-deb -f build/package/libballast-dev_*_all.deb "$1"; }
  [[ $(field Architecture) == all && $(field Depends) == *libexpected-dev* ]]
  for file in LICENSE docs/installing.md examples/first_plan.cpp; do
    [[ -f $folder/root/usr/share/doc/ballast/$file ]] || { echo "the package has no $file"; exit 1; }
  done
fi
