#!/usr/bin/env bats
# FIELD REPORTS: two breakers. Many find the same dead holder's lock at once.

load helper

# rounds COUNT WORKERS: in each a dead holder's lock and WORKERS subshells that begin together. Each notes its beginning
# and its end under the lock; a correct log is one of pairs.
ROUNDS='
rounds() {
  local round i name what expected
  local -a log
  mkfifo gate
  for (( round = 0; round < $1; round++ )); do
    ( mutex_lock m; kill -KILL "$BASHPID" ) || :; [[ -L m ]]
    for (( i = 0; i < $2; i++ )); do
      ( : <gate; mutex_lock m; printf "begin %s\n" "$i" >>log; printf "end %s\n" "$i" >>log; mutex_unlock m ) &
    done
    exec 7>gate; wait; exec 7>&-
    mapfile -t log <log; rm log
    (( ${#log[@]} == 2 * $2 ))
    for (( i = 0; i < ${#log[@]}; i += 2 )); do
      name=${log[i]#begin }
      if [[ ${log[i + 1]} != "end $name" ]]; then
        printf "%s\n" "round $round: overlap" "${log[@]}"
        return 1
      fi
    done
  done 2>/dev/null
  rm gate
}'

@test "two breakers: 64 shells at one dead holder's lock do not overlap" {
  once_is_enough
  limit=300
  in_shell "set -e; $ROUNDS"'; rounds "$1" 64; printf "done\n"' "$(figure 15 200)"
  expect_output 'done'
  expect_files
}

@test "two breakers: nor pinned to one core" {
  once_is_enough
  limit=300
  launch=(taskset -c 0)
  in_shell "set -e; $ROUNDS"'; rounds "$1" 64; printf "done\n"' "$(figure 10 200)"
  expect_output 'done'
}

@test "two breakers: nor on a disk" {
  once_is_enough
  limit=300
  cd "$disk"
  in_shell "set -e; $ROUNDS"'; rounds "$1" 16; printf "done\n"' "$(figure 15 200)"
  expect_output 'done'
}

@test "two breakers: one stopped after judging does not remove the fresh lock of the other" {
  in_shell 'mutex_lock m; kill -KILL "$BASHPID"'
  stop_before flock 1
  start_shell slow 'answer mutex_lock m 0.5'
  await_stopped slow
  launch=()
  start_shell fast 'answer mutex_lock m 5; readlink m; latch locked; await finish; readlink m; answer mutex_unlock m'
  await locked
  resume slow
  end_of slow
  expect_output 1
  latch finish
  end_of fast
  local -a line
  mapfile -t line <<<"$output"
  [[ ${line[0]} == 0 && ${line[1]} == "${line[2]}" && ${line[3]} == 0 ]]
}

@test "two breakers: one stopped before its rename still has the guard" {
  in_shell 'mutex_lock m; kill -KILL "$BASHPID"'
  stop_before renameat 1
  start_shell slow 'answer mutex_lock m 5; latch locked; await finish; answer mutex_unlock m'
  await_stopped slow
  launch=()
  in_shell 'answer mutex_lock m 0.3'
  expect_output 1
  resume slow
  await locked
  in_shell 'answer mutex_trylock m'
  expect_output 1
  latch finish
  end_of slow
  expect_output $'0\n0'
  expect_files
}

@test "two breakers: one that dies before its rename leaves the lock to the next" {
  in_shell 'mutex_lock m; kill -KILL "$BASHPID"'
  stop_before renameat 1
  start_shell slow 'mutex_lock m 5'
  await_stopped slow
  kill -KILL "${pids[slow]}"
  end_of slow
  launch=()
  in_shell 'answer mutex_lock m 5; answer mutex_unlock m'
  expect_output $'0\n0'
  expect_files
}

@test "two breakers: an unlock stopped before it removes does not remove another's lock" {
  stop_before unlinkat 1
  start_shell owner 'mutex_lock m; ( mutex_unlock m; printf "%s\n" $? )'
  launch=()
  until_true "$limit" test -L m
  start_shell other 'answer mutex_lock m 5; latch locked; await finish; answer mutex_unlock m'
  # The subshell is the one that stopped, inside the guard: nobody may get in between.
  local child
  until_true "$limit" has_stopped_child "${pids[owner]}"
  [[ ! -e $LATCHES/locked ]]
  kill -CONT "$child"
  await locked
  end_of owner
  expect_output 0
  in_shell 'answer mutex_trylock m'
  expect_output 1
  latch finish
  end_of other
  expect_output $'0\n0'
}

has_stopped_child() {
  child_of "$1" && is_stopped "$child"
}

@test "two breakers: a directory that any program has flocked only delays" {
  start flocker flock "$T" sleep 300
  until_true "$limit" is_locked_by_flock
  in_shell 'mutex_lock m; answer mutex_unlock m; mutex_lock n; answer mutex_unlock -f n; mutex_lock m; kill -KILL "$BASHPID"'
  expect_output $'0\n0'
  in_shell 'answer mutex_lock m 0.3'
  expect_output 1
  start_shell waiter 'answer mutex_lock m 10'
  await_asleep waiter
  pkill -KILL -P "${pids[flocker]}"
  end_of waiter
  expect_output 0
}

is_locked_by_flock() {
  ! flock -n "$T" true
}
