#!/bin/sh
# Review a repository and end with 0 once a verdict is there, whatever it says: review.sh REPO BASE HEAD [OPTION...]
# With no BASE and no HEAD: the newest commit. The exit codes of `diffcourt review` itself gate a CI job.
set -u
repo=$1 base=$2 head=$3
shift 3
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
[ -s "$verdict" ] && exit 0
exit $code
