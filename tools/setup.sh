#!/bin/sh
# Make a virtual environment and install this checkout into it: setup.sh FOLDER WHAT
# With uv where it is installed, else with venv and pip. Needs Python 3.11 or later.
set -eu
venv=$1 what=$2
unset PYTHONHOME PYTHONPATH VIRTUAL_ENV

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

if [ -x "$venv/bin/python" ] && ! new_enough "$venv/bin/python"; then
    rm -rf "$venv"
fi

if command -v uv >/dev/null 2>&1; then
    [ -x "$venv/bin/python" ] || uv venv --quiet --python '>=3.11' "$venv"
    exec uv pip install --quiet --python "$venv/bin/python" -c constraints.txt -e "$what"
fi

if [ ! -x "$venv/bin/python" ]; then
    python=
    for name in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
        if new_enough "$name"; then python=$name; break; fi
    done
    if [ -z "$python" ]; then
        echo "setup: no Python 3.11 or later found; install one, or name it: make PYTHON=/path/to/python" >&2
        exit 2
    fi
    if ! "$python" -m venv "$venv" 2>/dev/null; then
        rm -rf "$venv"
        echo "setup: $python cannot make a virtual environment; install its venv package (python3-venv)" >&2
        exit 2
    fi
fi
echo "setup: installing into $venv (a minute, the first time)" >&2
exec "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt -e "$what"
