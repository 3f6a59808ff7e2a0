#!/bin/sh
# owner.sh NAME: names the GitHub account that publishes signpost in deno.json and in all files that users copy from.
set -eu
case ${1:--} in
-* | *- | *[!A-Za-z0-9-]*)
  echo "deno task owner NAME: name the GitHub account that publishes signpost" >&2
  exit 1
  ;;
esac
cd "$(dirname "$0")/.."
# Registries take no capitals.
lower=$(printf %s "$1" | tr A-Z a-z)
files=$(git grep -lE "(github(usercontent)?\.com|ghcr\.io|--repo )/?[A-Za-z0-9_-]+/(charts/)?signpost\b" -- \
  deno.json README.md docs examples charts)
# shellcheck disable=SC2086
sed -i -E "s#(github(usercontent)?\.com/|--repo )[A-Za-z0-9_-]+/signpost\b#\1$1/signpost#g
  s#(ghcr\.io/)[A-Za-z0-9_-]+/((charts/)?signpost)\b#\1$lower/\2#g" $files
echo "$files"
