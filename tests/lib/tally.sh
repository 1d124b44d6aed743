# shellcheck shell=bash
# Shared by tests/run and .ci/run: run something, show what it prints, count what passed and what failed.

tally_passed=0
tally_failed=0

# PROGRAM:PACKAGE…: installs the packages of the programs that are not there.
install_missing() {
  local need
  local -a packages=() as_root=()

  for need in "$@"; do
    type -P "${need%%:*}" >/dev/null || packages+=("${need#*:}")
  done
  (( ${#packages[@]} > 0 )) || return 0

  printf 'installing with apt-get: %s\n' "${packages[*]}"
  (( EUID == 0 )) || as_root=(sudo)
  if "${as_root[@]}" apt-get update -q && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${packages[@]}"; then
    return 0
  fi
  printf 'could not install %s: please do it by hand\n' "${packages[*]}" >&2
  return 1
}

tally() {
  printf -- '--- %s: %d passed, %d failed\n' "$1" "$2" "$3"
  tally_passed=$(( tally_passed + $2 ))
  tally_failed=$(( tally_failed + $3 ))
}

# TITLE COUNTER COMMAND…: the COUNTER reads COMMAND's output and prints "PASSED FAILED". A command that fails without
# a failed test (it did not compile, it was cut short) or that has run no test at all counts as one failure.
run_tests() {
  local title="$1" counter="$2" log
  local -i passed=0 failed=0 status

  log=$(mktemp) || return 1
  printf '\n=== %s\n' "$title"
  "${@:3}" 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  read -r passed failed < <("$counter" <"$log")
  rm -f -- "$log"

  if (( failed == 0 && ( status != 0 || passed == 0 ) )); then
    printf '%s: ended with status %d after %d tests\n' "$title" "$status" "$passed"
    failed=1
  fi
  tally "$title" "$passed" "$failed"
}

# TITLE COMMAND…: passes or fails as a whole.
run_check() {
  printf '\n=== %s\n' "$1"
  if "${@:2}"; then
    tally "$1" 1 0
  else
    tally "$1" 0 1
  fi
}

# The "test result:" lines of cargo's test binaries.
count_cargo() {
  awk '/^test result: / { passed += $4; failed += $6 } END { print passed + 0, failed + 0 }'
}

# TAP. A test that was planned and never reported has failed; a skipped one has not passed.
count_tap() {
  awk '/^1\.\.[0-9]+$/ { planned += substr($1, 4) }
       /^ok /          { seen++; if ($0 !~ /# skip/) passed++ }
       /^not ok /      { seen++; failed++ }
       END             { if (planned > seen) failed += planned - seen; print passed + 0, failed + 0 }'
}

# The last line of a script that ends with report_sum.
count_sum() {
  tail -n 1 | tr -cd '0-9 '
}

report_sum() {
  printf '\n%d passed, %d failed\n' "$tally_passed" "$tally_failed"
  (( tally_failed == 0 && tally_passed > 0 ))
}
