#!/usr/bin/env bats
# Refuses to pass if a builtin lacks something that every builtin has.

load helper

# The same in every mode.
every_mode=no

@test "consistency: every builtin loads, and type says what it is" {
  in_shell 'for i in $INTERLOCK_NAMES; do printf "%s %s\n" "$i" "$(type -t "$i")"; done'
  local name
  while IFS= read -r name; do
    [[ $'\n'$output$'\n' == *$'\n'"$name builtin"$'\n'* ]] || fail "$name does not load" || return
  done <<<"$INTERLOCK_NAMES"
  [[ -n $INTERLOCK_NAMES ]]
}

@test "consistency: every builtin that the design names is in the list" {
  local name
  for name in {,w}mutex_{trylock,lock,unlock} sem_{init,wait,trywait,post,peek,destroy} queue_{init,put,get,peek,len,foreach,destroy} \
    dirlock_{trylock,lock,unlock} bakery_{trylock,lock,unlock}; do
    [[ $'\n'$INTERLOCK_NAMES$'\n' == *$'\n'"$name"$'\n'* ]] || fail "$name is missing" || return
  done
}

@test "consistency: every builtin has a short description, a usage and a help text" {
  in_shell '
    for name in $INTERLOCK_NAMES; do
      [[ $(help -d "$name") =~ ^"$name - "[A-Z].{9,70}$ ]] || printf "help -d %s: %s\n" "$name" "$(help -d "$name")"
      [[ $(help -s "$name") =~ ^"$name: $name"(\ .+)?$ ]] || printf "help -s %s: %s\n" "$name" "$(help -s "$name")"
      help "$name" >"$LATCHES/help"
      grep -q "Exit [Ss]tatus" "$LATCHES/help" || printf "help %s does not tell the status\n" "$name"
      # Nothing wider than a terminal.
      ! grep -qE ".{81}" "$LATCHES/help" || printf "help %s is too wide\n" "$name"
    done'
  expect_status 0
  expect_output ''
}

@test "consistency: every builtin can be completed" {
  in_shell '. "$INTERLOCK_ROOT/shell/completion.bash"
    for name in $INTERLOCK_NAMES; do complete -p "$name" >/dev/null || printf "%s cannot be completed\n" "$name"; done'
  expect_status 0
  expect_output ''
}

@test "consistency: every family has a test file, and every builtin a test" {
  local name
  while IFS= read -r name; do
    [[ -f $BATS_TEST_DIRNAME/${name%%_*}.bats ]] || fail "no ${name%%_*}.bats" || return
    grep -qE "(^|[^a-z_])$name([^a-z_]|\$)" "$BATS_TEST_DIRNAME"/*.bats || fail "no test tries $name" || return
  done <<<"$INTERLOCK_NAMES"
}

@test "consistency: every test file is loaded with the helper and has tests" {
  local file
  for file in "$BATS_TEST_DIRNAME"/*.bats; do
    grep -q '^load helper$' "$file" && grep -q '^@test ' "$file" || fail "$file" || return
  done
}
