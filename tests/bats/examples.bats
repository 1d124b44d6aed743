#!/usr/bin/env bats
# tests/examples: each script does what its first comment says.

load helper

# The same in every mode.
every_mode=no

example() {
  local name="$1"
  shift
  PATH="$INTERLOCK_ROOT/shell:$PATH" "$INTERLOCK_BASH" "$INTERLOCK_ROOT/tests/examples/$name" "$@"
}

start_example() {
  local who="$1" name="$2"
  shift 2
  start "$who" env "PATH=$INTERLOCK_ROOT/shell:$PATH" "$INTERLOCK_BASH" "$INTERLOCK_ROOT/tests/examples/$name" "$@"
}

# A command for the examples: closes the latch $1.begun and goes on when $1.go is closed.
# shellcheck disable=SC2016
patient='
  : >"$LATCHES/$1.begun"
  until [[ -e $LATCHES/$1.go ]]; do read -rt 0.005 <>"$LATCHES/.nap"; done
  printf "%s\n" "$1"'

@test "example run-once: the second one leaves, the next one runs" {
  once_is_enough
  start_example first run-once lock "$INTERLOCK_BASH" -c "$patient" _ first
  await first.begun
  [[ $(example run-once lock printf 'ran\n') == 'still running, see you next time' ]]
  latch first.go
  end_of first
  expect_status 0
  expect_output first
  [[ $(example run-once lock printf 'ran\n') == ran ]]
  expect_files
}

@test "example run-once: the status comes through, and kill -9 blocks nobody" {
  once_is_enough
  local -i rc=0
  example run-once lock false || rc=$?
  (( rc == 1 ))
  start_example victim run-once lock "$INTERLOCK_BASH" -c "$patient" _ victim
  await victim.begun
  kill -KILL "${pids[victim]}"
  # What it had started still runs, and that is what the lock is for.
  [[ $(example run-once lock printf 'ran\n') == still* ]]
  latch victim.go
  end_of victim
  until_true "$limit" runs_again
}

runs_again() {
  [[ $(example run-once lock printf 'ran\n') == ran ]]
}

@test "example worker-pool: all are done, and never more at once than there are places" {
  once_is_enough
  # shellcheck disable=SC2016
  printf '%s\n' {1..12} 'last, without newline' | head -c -1 >list
  input=$T/list
  # shellcheck disable=SC2016
  start_example pool worker-pool 3 "$INTERLOCK_BASH" -c '
    mkdir "in.$$"; places=(in.*); printf "%s\n" "${#places[@]}" >"seen.$$"
    read -rt 0.05 <>"$LATCHES/.nap"; rmdir "in.$$"; printf "%s\n" "$1" >"done.$$"' _
  end_of pool
  expect_status 0
  expect_quiet
  cat done.* | sort >finished
  sort list | diff - finished
  (( $(cat seen.* | sort -n | tail -n 1) <= 3 ))
}

@test "example worker-pool: one that fails, or is killed, costs no place and shows in the status" {
  once_is_enough
  local -i rc=0
  # shellcheck disable=SC2016
  printf '%s\n' 1 2 3 4 5 6 | example worker-pool 1 "$INTERLOCK_BASH" -c '(( $1 != 2 )) || exit 4; (( $1 != 4 )) || kill -KILL $$; : >"did.$1"' _ || rc=$?
  (( rc == 1 ))
  expect_files did.1 did.3 did.5 did.6
}

@test "example shared-log: records of many writers stay whole, through the change of files" {
  once_is_enough
  local -i writer
  for writer in {1..8}; do
    start "writer$writer" env "PATH=$INTERLOCK_ROOT/shell:$PATH" "$INTERLOCK_BASH" -c '
      for n in {1..5}; do
        printf "%s\n" "$1.$n a" "$1.$n b" "$1.$n c" | "$BASH" "$INTERLOCK_ROOT/tests/examples/shared-log" log 1500
      done' writer "$writer"
  done
  for writer in {1..8}; do
    end_of "writer$writer"
    expect_status 0
    expect_quiet
  done
  [[ -s log && -s log.1 && ! -e log.lock ]]
  # Head line, then a, b and c of one record, over and over.
  cat log.1 log | awk '
    NR % 4 == 1 { next }
    NR % 4 == 2 { record = $1 }
    $1 != record || $2 != substr("abc", (NR - 1) % 4, 1) { bad = 1 }
    END { exit bad || NR == 0 || NR % 4 }'
  (( $(wc -c <log) <= 1500 && $(wc -c <log.1) <= 1500 ))
}

@test "example build-steps: the link waits for every step" {
  once_is_enough
  printf 'one\n' >a.in
  printf 'two\n' >b.in
  printf 'three\n' >c.in
  example build-steps .
  [[ $(<all) == $'ONE\nTWO\nTHREE' && ! -e .barrier ]]
}

@test "example build-steps: a step that fails does not hang the build" {
  once_is_enough
  printf 'one\n' >a.in
  mkdir b.in
  start_example build build-steps .
  end_of build
  expect_status 1
  [[ $errors == *'./b.out was not built' && ! -e all && ! -e .barrier ]]
}

@test "example ask and answer: everybody gets the answer to his own question" {
  once_is_enough
  local -i n
  start_example server answer .
  until_true "$limit" test -e questions
  for n in {1..6}; do
    printf 'word\nword %.0s' $(seq "$n") >"question$n"
    input=$T/question$n
    start_example "asker$n" ask .
  done
  for n in {1..6}; do
    end_of "asker$n"
    expect_status 0
    expect_output "$(wc -w <"question$n") words"
    expect_quiet
  done
  kill -TERM "${pids[server]}"
  end_of server
  expect_status 0
  expect_quiet
  rm question[1-6]
  expect_files questions
}

@test "example ask: without a server it gives up, and the question does not harm the next one" {
  once_is_enough
  local -i rc=0
  in_shell 'queue_init questions'
  example ask . 0.05 <<<'nobody there' || rc=$?
  (( rc == 1 ))
  expect_files questions
  start_example server answer .
  until_true "$limit" test -e questions
  [[ $(example ask . <<<'one two three') == '3 words' ]]
}

@test "example service: start, status, stop" {
  once_is_enough
  local pid
  pid=$(example service start lock)
  [[ $pid == "running as "* ]]
  [[ $(example service status lock) == "$pid" ]]
  [[ $(example service start lock) == "$pid" ]]
  kill -0 "${pid##* }"
  example service stop lock
  until_true "$limit" has_ended "${pid##* }"
  [[ $(example service status lock) == stopped ]]
  example service stop lock
  expect_files
}

@test "example service: after kill -9 it is known to be stopped, and starts again" {
  once_is_enough
  local pid
  pid=$(example service start lock)
  kill -KILL "${pid##* }"
  until_true "$limit" has_ended "${pid##* }"
  [[ $(example service status lock) == stopped ]]
  pid=$(example service start lock)
  [[ $pid == "running as "* ]]
  example service stop lock
}

@test "example service: where there can be no lock, every verb says so once" {
  local verb
  for verb in start status stop; do
    start_example service service "$verb" no/lock
    end_of service
    expect_status 3
    expect_error '*mutex_trylock: no/lock: No such file or directory'
  done
}
