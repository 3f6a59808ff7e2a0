#!/bin/sh
# Copies programs and files below a folder, with all that they need to run there and nothing else: the
# links on the way, the shared libraries, the loader, and the extensions of iptables.
#   image-root.sh FOLDER PROGRAM|FILE...
# A program without a slash is looked for in PATH. Containerfile makes the image's files with it.
set -eu
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
root=$1
shift

# copy PATH: the file, and each link on the way to it.
copy() {
  file=$(realpath "$(dirname "$1")")/$(basename "$1")
  while [ ! -e "$root$file" ] && [ ! -L "$root$file" ]; do
    mkdir -p "$root$(dirname "$file")"
    cp --no-dereference --preserve=mode "$file" "$root$file"
    [ -L "$file" ] || break
    next=$(readlink "$file")
    case $next in /*) ;; *) next=$(dirname "$file")/$next ;; esac
    file=$(realpath "$(dirname "$next")")/$(basename "$next")
  done
}

# libraries FILE: the paths of what the loader loads with it.
libraries() {
  ldd "$1" 2>/dev/null | grep -oE '(^|[[:space:]])/[^ ]+' || true
}

mkdir -p "$root/usr"
for folder in bin sbin lib lib64; do
  if [ -L "/$folder" ]; then
    mkdir -p "$root/$(readlink "/$folder")"
    cp --no-dereference "/$folder" "$root"
  fi
done
for each; do
  case $each in
    /*) path=$each ;;
    *) path=$(command -v "$each") || { echo "image-root.sh: there is no $each in $PATH" >&2; exit 1; } ;;
  esac
  copy "$path"
  for library in $(libraries "$(realpath "$path")"); do copy "$library"; done
done
for extension in /usr/lib/*/xtables/*.so; do
  [ -e "$extension" ] || continue
  copy "$extension"
  for library in $(libraries "$extension"); do copy "$library"; done
done
