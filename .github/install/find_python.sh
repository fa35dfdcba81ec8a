#!/usr/bin/env bash
# Find a Python that ciguard runs on. Sets the step's output `python`; empty where there is none.
set -euo pipefail

# An interpreter that has ciguard already, for runners without an index; install.sh uses it as it is.
python=${CIGUARD_PYTHON:-}
for name in python3 python python3.14 python3.13 python3.12 python3.11; do
    if [ -z "$python" ] && "$name" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$name
    fi
done
echo "python=$python" >> "$GITHUB_OUTPUT"
