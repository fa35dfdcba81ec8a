#!/usr/bin/env bash
# Install ciguard from the files of its actions: install.sh PYTHON FOLDER. Sets the step's output `python`.
#
# Nothing of the checkout is imported (-I), nothing gets onto PATH, every library is locked by hash.
# CIGUARD_PYTHON names an interpreter that has ciguard already, for runners without an index.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=$1
folder=$2

if [ -n "${CIGUARD_PYTHON:-}" ]; then
    echo "python=$CIGUARD_PYTHON" >> "$GITHUB_OUTPUT"
    exit
fi

"$python" -I -m venv "$folder"
bin=$folder/bin
[ -d "$bin" ] || bin=$folder/Scripts
"$bin/python" -I -m pip install --quiet --disable-pip-version-check \
    --require-hashes --only-binary :all: -r "$root/.github/install/requirements.txt"
site=$("$bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp -R "$root/ciguard" "$site/"
cp -R "$root/templates" "$site/ciguard/"
echo "python=$bin/python" >> "$GITHUB_OUTPUT"
