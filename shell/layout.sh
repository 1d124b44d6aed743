# shellcheck shell=bash
# What shell/install puts where, and shell/uninstall takes away. Sourced by both.

clone=$(CDPATH='' cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd) || exit 1
plugin=${INTERLOCK_LIB:-${CARGO_TARGET_DIR:-$clone/target}/release/libinterlock.so}
page=${CARGO_TARGET_DIR:-$clone/target}/interlock.1

# COMMAND ARGUMENT…: sets PREFIX, DESTDIR and include_dir; 2 if they make no sense.
read_options() {
  PREFIX=${PREFIX:-/usr/local}
  DESTDIR=${DESTDIR-}
  include_dir=''
  case "$#:${2-}" in
  1:)                ;;
  3:--include-dir)   include_dir=$3 ;;
  2:--include-dir=*) include_dir=${2#*=} ;;
  *)
    printf 'usage: [PREFIX=/usr/local] [DESTDIR=] %s [--include-dir DIR]\n' "$1" >&2
    return 2
    ;;
  esac
  if [[ $PREFIX != /* || $include_dir == [!/]* ]]; then
    printf '%s: PREFIX and DIR must be absolute paths\n' "$1" >&2
    return 2
  fi
}

# One line for each file: its mode and source, or "link" and what it says; then its place; separated by tabs.
list_layout() {
  local share="$PREFIX/share/interlock" module builtin builtins

  builtins=$(sed -n 's/^ *name: "\([a-z_]*\)",$/\1/p' "$clone/src/command/table.rs") || return
  printf '%s\t%s\t%s\n' \
    644  "$plugin"                       "$PREFIX/lib/bash/libinterlock.so" \
    link libinterlock.so                 "$PREFIX/lib/bash/interlock.so" \
    644  "$clone/shell/interlock.sh"     "$share/interlock.sh" \
    644  "$clone/shell/library.sh"       "$share/library.sh" \
    644  "$clone/shell/completion.bash"  "$share/completion.bash" \
    link ../share/interlock/interlock.sh "$PREFIX/bin/interlock.sh" \
    644  "$page"                         "$PREFIX/share/man/man1/interlock.1"
  for module in mutex wmutex sem queue; do
    printf '%s\t%s\t%s\n' 644 "$clone/shell/include/$module.sh" "$share/include/$module.sh"
    [[ -z $include_dir ]] || printf '%s\t%s\t%s\n' link "$share/include/$module.sh" "$include_dir/$module.sh"
  done
  # bash-completion looks for a file named like the command.
  while read -r builtin; do
    printf '%s\t%s\t%s\n' link ../../interlock/completion.bash "$PREFIX/share/bash-completion/completions/$builtin"
  done <<<"$builtins"
}
