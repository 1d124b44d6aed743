#!/usr/bin/env bats
# shell/demo, the first thing a newcomer starts.

load helper

# The same in every mode.
every_mode=no

is_empty_session() {
  ! pgrep -s "$1" >/dev/null
}

@test "demo: tells its story and leaves nothing behind" {
  once_is_enough
  start demo env "TMPDIR=$T" "$INTERLOCK_BASH" "$INTERLOCK_ROOT/shell/demo"
  end_of demo
  expect_status 0
  expect_quiet
  [[ $output == *'it stands at 8 of 8.'* ]]
  [[ $output == *'its holder is dead'*'I have it'* ]]
  (( $(grep -c 'takes out:' <<<"$output") == 8 && $(grep -c 'I go home' <<<"$output") == 2 ))
  expect_files
}

@test "demo: Ctrl-C ends it and all its processes, and leaves nothing behind" {
  once_is_enough
  launch=(env --default-signal=INT setsid)
  start demo env "TMPDIR=$T" "$INTERLOCK_BASH" "$INTERLOCK_ROOT/shell/demo"
  until_true "$limit" grep -q 'takes out:' "$records/demo.out"
  kill -INT -- "-${pids[demo]}"
  end_of demo
  expect_status 130
  expect_files
  until_true "$limit" is_empty_session "${pids[demo]}"
}
