#!/bin/sh
# Make a virtual environment, and install this checkout, or a wheel of it, and some of its extras into it:
#   setup.sh FOLDER EXTRA[,EXTRA...] [-e | WHEEL]
# Only files whose hashes are in constraints.txt are installed, and nothing is built but Diffcourt itself.
# With uv where it is installed, else with venv and pip. Needs Python 3.11 or later, $PYTHON if that is set.
# It runs in an empty folder: in the caller's, a change could lie that brings a venv.py or a pip.conf of its own.
set -eu
unset PYTHONHOME PYTHONPATH VIRTUAL_ENV
fail() {
    echo "setup: $1" >&2
    exit 2
}
source=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
case $1 in /*) venv=$1 ;; *) venv=$PWD/$1 ;; esac
extras=$2 editable='' package=$source
case ${3-} in -e) editable=-e ;; ?*) package=$3 ;; esac
empty=$(mktemp -d)
locked=$empty/locked.txt
trap 'rm -rf "$empty"' EXIT
mkdir "$empty/here"
cd "$empty/here"

grep -E " # (.* )?(core|build|$(printf %s "$extras" | tr , '|'))( |\$)" "$source/constraints.txt" >"$locked"
for extra in $(printf %s "$extras" | tr , ' '); do
    grep -qE " # (.* )?$extra( |\$)" "$locked" || fail "constraints.txt has no extra $extra"
done

new_enough() { "$1" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
if [ -x "$venv/bin/python" ] && ! new_enough "$venv/bin/python"; then
    rm -rf "$venv"
fi

uv=$(command -v uv || true)
if [ -n "$uv" ]; then
    [ -x "$venv/bin/python" ] || "$uv" venv --no-config --quiet --python "${PYTHON:->=3.11}" "$venv"
    install() { "$uv" pip install --no-config --quiet --python "$venv/bin/python" "$@"; }
else
    if [ ! -x "$venv/bin/python" ]; then
        python=
        for name in "${PYTHON:-python3}" python3.14 python3.13 python3.12 python3.11; do
            if new_enough "$name"; then python=$name; break; fi
        done
        [ -n "$python" ] || fail "no Python 3.11 or later found; install one, or name it: PYTHON=/path/to/python"
        if ! "$python" -I -m venv "$venv" 2>/dev/null; then
            rm -rf "$venv"
            fail "$python cannot make a virtual environment; install its venv package (python3-venv)"
        fi
    fi
    install() { "$venv/bin/python" -I -m pip install --quiet --disable-pip-version-check "$@"; }
fi

echo "setup: installing into $venv (a minute, the first time)" >&2
install --require-hashes --only-binary :all: -r "$locked"
install --no-index --no-deps --no-build-isolation ${editable:+"$editable"} "$package"
