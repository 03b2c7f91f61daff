#!/bin/sh
# Review a repository: review.sh REPO BASE HEAD [OPTION...]. With no BASE and no HEAD: the newest commit.
# It ends with 0 once a verdict is there, or, with --fail-on among the options, as `diffcourt review` does.
set -uf
# An empty or relative entry of PATH could be the repository under review.
kept= IFS=:
for entry in $PATH; do
    case $entry in /*) kept=$kept${kept:+:}$entry ;; esac
done
PATH=$kept
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
