#!/bin/sh
# Review a repository: review.sh REPO BASE HEAD [OPTION...]. With no BASE and no HEAD: the newest commit.
# It ends with 0 once a verdict is there, or, with --fail-on among the options, as `diffcourt review` does.
set -uf
unset CDPATH
# Nothing below the repository under review is started: no entry of PATH that is empty, relative or leads there.
whole=$(cd -P -- "$1" && pwd -P) || exit 2
top=$whole
while [ -n "$top" ] && [ ! -e "$top/.git" ]; do top=${top%/*}; done
top=${top:-$whole} kept= IFS=:
for entry in $PATH; do
    case $entry in /*) real=$(cd -P -- "$entry" 2>/dev/null && pwd -P) || continue ;; *) continue ;; esac
    case $real/ in "$top"/*) ;; *) kept=$kept${kept:+:}$entry ;; esac
done
PATH=${kept:-/usr/local/bin:/usr/bin:/bin}
unset IFS
repo=$1 base=$2 head=$3 gate=
shift 3
for option; do
    case $option in --fail-on | --fail-on=*) gate=yes ;; esac
done
verdict=$(mktemp) || exit 2
trap 'rm -f "$verdict"' EXIT
rm -f "$verdict"

if [ -z "$base" ] && [ -z "$head" ] &&
    git -C "$repo" rev-parse --quiet --verify 'HEAD~1^{commit}' >/dev/null 2>&1; then
    base=HEAD~1
fi
[ -z "$base" ] || set -- --base "$base" "$@"
[ -z "$head" ] || set -- --head "$head" "$@"

"$BIN/diffcourt" review --repo "$repo" --json "$verdict" "$@"
code=$?
[ -z "$gate" ] && [ -s "$verdict" ] && exit 0
exit $code
