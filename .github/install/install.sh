#!/usr/bin/env bash
# Install ciguard from the files of its actions: install.sh PYTHON FOLDER. Sets the step's output `python`.
#
# Nothing of the checkout is imported (-I) or read (--no-config), nothing gets onto PATH, every library is
# locked by hash. Nothing is cached: a job with the project's code could fill the cache of one with a token.
# CIGUARD_PYTHON names an interpreter that has ciguard already, for runners without an index.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=$1
folder=$2

if [ -n "${CIGUARD_PYTHON:-}" ]; then
    echo "python=$CIGUARD_PYTHON" >> "$GITHUB_OUTPUT"
    exit
fi

# An earlier action of this job has installed it.
if [ "$(cat "$folder/installed-from" 2>/dev/null)" = "$root" ]; then
    python=$folder/bin/python
    [ -x "$python" ] || python=$folder/Scripts/python
    echo "python=$python" >> "$GITHUB_OUTPUT"
    exit
fi

export PIP_ROOT_USER_ACTION=ignore
locked=(--quiet --no-deps --require-hashes --only-binary :all:)
pip=(-I -m pip install "${locked[@]}" --no-compile --disable-pip-version-check)
if [ -n "${PIP_INDEX_URL:-}" ]; then export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}"; fi

# A quarter of the processor time of pip alone, the fetch of uv included: benchmarks/job_overhead.py.
install_by_uv() {
    "$python" -I -m venv --without-pip "$folder" &&
        "$python" "${pip[@]}" --target "$folder/uv" -r "$root/.github/install/uv.txt" &&
        "$folder/uv/bin/uv" pip install "${locked[@]}" --no-config --cache-dir "$folder/uv/cache" \
            --python "$folder" -r "$root/.github/install/requirements.txt"
}

install_by_pip() {
    echo "uv cannot install ciguard's libraries on this machine: pip does"
    "$python" -I -m venv --clear "$folder"
    python=$folder/bin/python
    [ -e "$python" ] || python=$folder/Scripts/python
    "$python" "${pip[@]}" -r "$root/.github/install/requirements.txt"
}

install_by_uv || install_by_pip
rm -rf "$folder/uv"
bin=$folder/bin
[ -d "$bin" ] || bin=$folder/Scripts
site=$("$bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp -R "$root/ciguard" "$site/"
cp -R "$root/templates" "$site/ciguard/"
printf '%s' "$root" > "$folder/installed-from"
echo "python=$bin/python" >> "$GITHUB_OUTPUT"
