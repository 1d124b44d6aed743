#!/usr/bin/env bats
# dirlock_trylock, dirlock_lock, dirlock_unlock: a lock directory that scripts with plain mkdir and rmdir respect.

load helper

@test "lock directory: locked, busy for another script, unlocked" {
  in_shell '
    answer dirlock_lock d; shell "answer dirlock_trylock d; answer dirlock_lock d 0.02"
    answer dirlock_unlock d; shell "answer dirlock_trylock d"; answer dirlock_unlock d'
  expect_output $'0\n1\n1\n0\n0\n0'
  expect_quiet
}

@test "lock directory: it holds one file that tells whose it is" {
  in_shell 'dirlock_lock d; printf "%s\n" "$$"; cat d/owner; rm -r d'
  local -a line
  mapfile -t line <<<"$output"
  [[ ${line[1]} =~ ^([0-9]+,){5}"${line[0]}"$ && ${line[2]} == shell && ${#line[@]} -eq 3 ]]
}

@test "lock directory: excludes a script that locks with mkdir, and is excluded by it" {
  in_shell '
    dirlock_lock d; mkdir d 2>/dev/null || printf "busy\n"; rmdir d 2>/dev/null || printf "not empty\n"; dirlock_unlock d
    mkdir d; answer dirlock_trylock d; answer dirlock_lock d 1.2; rc=0; dirlock_unlock d 2>/dev/null || rc=$?; printf "%s\n" "$rc"; rmdir d; answer dirlock_trylock d; answer dirlock_unlock d'
  expect_output $'busy\nnot empty\n1\n1\n2\n0\n0'
  expect_files
}

@test "lock directory: a bare directory is removed by force only, one with something in it never" {
  mkdir bare full
  : >full/file
  in_shell 'answer dirlock_unlock -f bare; answer dirlock_unlock -f bare; answer dirlock_trylock full; answer dirlock_unlock -f full'
  [[ $output == $'0\n1\n1\n'[23] ]]
  expect_files full
  [[ -f full/file ]]
}

@test "lock directory: a waiter gets it when a plain script removes it" {
  mkdir d
  start_shell waiter 'answer dirlock_lock d 20; answer dirlock_unlock d'
  await_asleep waiter
  rmdir d
  end_of waiter
  expect_output $'0\n0'
  expect_files
}

@test "lock directory: the lock of a killed holder goes to a waiter, on tmpfs and on disk" {
  local dir round=0
  for dir in "$T" "$disk"; do
    cd "$dir"
    start_shell holder 'dirlock_lock d; latch "locked.$1"; await never 60' "$(( ++round ))"
    await "locked.$round"
    start_shell waiter 'answer dirlock_lock d 20; shell "answer dirlock_trylock d"; answer dirlock_unlock d'
    await_asleep waiter
    kill -KILL "${pids[holder]}"
    end_of waiter
    expect_output $'0\n1\n0'
    expect_quiet
    [[ -z $(ls -A) ]]
  done
}

@test "lock directory: force leaves a directory alone whose file owner somebody else has written" {
  mkdir text number link directory empty
  printf 'Jane\n' >text/owner
  printf '%s\n' "$$" >number/owner
  ln -s /etc/passwd link/owner
  mkdir directory/owner
  : >empty/owner
  local name
  for name in text number link directory; do
    in_shell 'answer dirlock_unlock -f "$1"; ls -A "$1"' "$name"
    expect_output $'3\nowner'
    expect_error "*dirlock_unlock: $name: its file owner is not ours*"
  done
  # A maker of ours may have been killed before it wrote.
  in_shell 'answer dirlock_unlock -f empty'
  expect_output 0
  expect_files text number link directory
  [[ $(<text/owner) == Jane ]]
}

@test "lock directory: another script's is not unlocked, a subshell of the own one may" {
  start_shell holder 'dirlock_lock d; latch locked; await finish; ( answer dirlock_unlock d )'
  await locked
  in_shell 'dirlock_unlock d'
  expect_status 2
  expect_error '*dirlock_unlock: d: not the owner*'
  latch finish
  end_of holder
  expect_output 0
}

@test "lock directory: programs started inside keep it, with -c they do not" {
  start_shell holder 'dirlock_lock d; dirlock_lock -c e; sh -c "echo \$\$ >\"\$LATCHES/program\"; exec sleep 300"; :'
  until_true "$limit" test -s "$LATCHES/program"
  kill -KILL "${pids[holder]}"
  in_shell 'answer dirlock_lock d 1.2; answer dirlock_lock e 5'
  expect_output $'1\n0'
  kill "$(<"$LATCHES/program")"
  in_shell 'answer dirlock_lock d 5'
  expect_output 0
}

@test "lock directory: something else at its name is busy or a clear answer, never touched" {
  : >file
  mkdir target
  ln -s target link
  mkfifo fifo
  local command path
  for path in file link fifo; do
    for command in dirlock_trylock 'dirlock_unlock -f' dirlock_unlock; do
      in_shell "$command $path"
      (( status > 0 )) || fail "$command $path: $status" || return
    done
    in_shell "dirlock_lock $path 0.02"
    (( status == 1 || status == 3 )) || fail "dirlock_lock $path: $status" || return
  done
  expect_files fifo file link target
  [[ -z $(ls -A target) ]]
}

@test "lock directory: 16 shells at one dead holder's do not overlap" {
  once_is_enough
  limit=200
  in_shell '
    mkfifo gate
    for ((round = 0; round < $1; round++)); do
      ( dirlock_lock d; kill -KILL "$BASHPID" ) || :
      for ((i = 0; i < 16; i++)); do ( : <gate; dirlock_lock d; printf "begin %s\n" "$i" >>log; printf "end %s\n" "$i" >>log; dirlock_unlock d ) & done
      exec 7>gate; wait; exec 7>&-
      mapfile -t log <log; rm log
      for ((i = 0; i < 32; i += 2)); do [[ ${log[i + 1]} == "end ${log[i]#begin }" ]] || { printf "overlap\n"; exit 1; }; done
    done 2>/dev/null
    rm gate; printf "done\n"' "$(figure 15 200)"
  expect_output 'done'
  expect_files
}

@test "lock directory: one breaker stopped after judging does not remove the fresh lock of another" {
  in_shell 'dirlock_lock d; kill -KILL "$BASHPID"'
  stop_before flock 1
  start_shell slow 'answer dirlock_lock d 0.5'
  await_stopped slow
  launch=()
  start_shell fast 'answer dirlock_lock d 5; latch locked; await finish; answer dirlock_unlock d'
  await locked
  resume slow
  end_of slow
  expect_output 1
  latch finish
  end_of fast
  expect_output $'0\n0'
  expect_files
}

@test "lock directory: an unlock killed before any of its steps leaves a lock that can be had" {
  local -i count stops=0
  local call
  for call in renameat unlinkat; do
    for (( count = 1; ; count++ )); do
      stop_before "$call" "$count"
      start_shell victim 'dirlock_lock d; dirlock_unlock d'
      until_true "$limit" has_ended_or_stopped "${pids[victim]}"
      ! has_ended "${pids[victim]}" || break
      stops+=1
      kill -KILL "${pids[victim]}"
      end_of victim
      launch=()
      in_shell 'answer dirlock_lock d 5; answer dirlock_unlock d'
      [[ $output == $'0\n0' ]] || fail "$call $count: $output" "$errors" || return
      expect_files || return
    done
  done
  (( stops >= 2 )) || fail "only $stops stops"
}
