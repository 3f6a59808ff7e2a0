#!/bin/sh
# compare_std.sh STD [MADE]: compares the npm package deno-std with Deno's standard library, from which a third party makes it.
#
#     git clone https://github.com/denoland/std && git -C std checkout ca58f9427
#     tools/compare_std.sh std
#
# MADE is the package's folder, by default that in Deno's cache. Types, comments and formatting do not count. Ends with 1 if
# a file differs or has no source.
set -eu
deno=${DENO:-deno}
cd "$(dirname "$0")/.."
std=$(realpath "$1")
version=$(sed -n 's/.*"npm:deno-std@\(.*\)": ".*/\1/p' deno.lock)
cache=$("$deno" info --json | sed -n 's/.*"npmCache": "\(.*\)".*/\1/p')
made=$(realpath "${2:-$cache/registry.npmjs.org/deno-std/$version}")

# A file without comments, formatting and types. Names of types must not count when names are shortened, so this has two steps.
# "@std/internal/build-message", "../internal/build_message.js" and "./build_message.ts" are one module.
code() {
  { bundle "$1" || echo "$1"; } | sed -E 's/\b0x[0-9a-fA-F]+/\L&/g' >"$scratch/plain.js"
  bundle --minify "$scratch/plain.js" | sed -E "s:(from|import)([\"'])[^\"']*/:\1\2:g
    s:((from|import)[\"'][^\"']*)\.[jt]s([\"']):\1\3:g
    : dash; s:((from|import)[\"'][^\"']*)-:\1_:; t dash"
}

bundle() {
  "$deno" bundle -q --no-config --no-lock --inline-imports=false --packages=external "$@"
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
same=0 different=0
cd "$made"
for file in $(find assert encoding internal path text yaml -name '*.js' 2>/dev/null | sort); do
  source=$std/${file%.js}.ts
  if [ -e "$source" ] && [ "$(code "$file")" = "$(code "$source")" ]; then
    same=$((same + 1))
  else
    different=$((different + 1))
    echo "$file: differs from $source" >&2
  fi
done
echo "$same files are the code of $std, $different are not"
[ "$same" -gt 0 ] && [ "$different" -eq 0 ]
