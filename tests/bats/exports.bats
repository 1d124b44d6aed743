#!/usr/bin/env bats
# What the library shows to bash, and what it needs of it.

load helper

# The same in every mode.
every_mode=no

# dynamic_symbols OPTION…: the names, one a line, sorted.
dynamic_symbols() {
  nm -D "$@" "$INTERLOCK_LIB" | awk '{ print $NF }' | LC_ALL=C sort
}

@test "exports: one structure for each builtin, and otherwise only what carries our prefix" {
  once_is_enough
  local expected
  expected=$(printf '%s\n' "${INTERLOCK_NAMES//$'\n'/_struct$'\n'}_struct" | LC_ALL=C sort)
  run dynamic_symbols --defined-only
  [[ $(grep '_struct$' <<<"$output") == "$expected" ]] || fail "exported:" "$output" || return
  ! grep -qv -e '_struct$' -e '^interlock_' <<<"$output" || fail "exported:" "$output"
}

@test "exports: the structures are writable, since bash writes into them" {
  once_is_enough
  run nm -D --defined-only "$INTERLOCK_LIB"
  [[ $(grep -c ' D .*_struct$' <<<"$output") == $(grep -c . <<<"$INTERLOCK_NAMES") ]] || fail "$output"
}

@test "exports: the symbols needed of bash are exactly those of the written list" {
  once_is_enough
  local needed written
  # What has a version belongs to libc; the toolchain's own begin with an underscore.
  needed=$(dynamic_symbols --undefined-only | grep -v -e '@' -e '^_')
  written=$(awk '/^[a-z]/ { print $1 }' "$INTERLOCK_ROOT/src/bash/symbols.txt")
  [[ $needed == "$written" ]] || fail "$(diff <(printf '%s\n' "$written") <(printf '%s\n' "$needed"))"
}

@test "exports: the bash under test has all of them" {
  once_is_enough
  local name
  run nm -D --defined-only "$INTERLOCK_BASH"
  while IFS= read -r name; do
    [[ $output =~ " $name"($'\n'|$) ]] || fail "$INTERLOCK_BASH has no $name" || return
  done < <(awk '/^[a-z]/ { print $1 }' "$INTERLOCK_ROOT/src/bash/symbols.txt")
}

@test "exports: the library is bound when it is loaded, and never unloaded" {
  once_is_enough
  run readelf -d "$INTERLOCK_LIB"
  [[ $output == *NODELETE* && $output == *NOW* ]] || fail "$output"
}
