#!/usr/bin/env bats
# FIELD REPORTS: subshells and traps.

load helper

@test "subshell: a lock of the script is busy for its subshell, and unharmed" {
  in_shell 'mutex_lock m; ( answer mutex_trylock m ); shell "answer mutex_trylock m"; answer mutex_unlock m'
  expect_output $'1\n1\n0'
}

@test "subshell: a lock taken in one ends with it" {
  in_shell '( mutex_lock m ); answer mutex_trylock m; x=$(mutex_lock n); answer mutex_trylock n'
  expect_output $'0\n0'
}

@test "subshell: the parent may unlock it before" {
  in_shell '
    ( mutex_lock m; latch locked; await unlocked; shell "answer mutex_trylock m" ) & await locked
    answer mutex_unlock m; latch unlocked; wait'
  expect_output $'0\n0'
}

@test "subshell: one may unlock what the script locked" {
  in_shell 'mutex_lock m; ( answer mutex_unlock m ); shell "answer mutex_trylock m"'
  expect_output $'0\n0'
}

@test "subshell: in a pipeline and in a process substitution" {
  in_shell 'mutex_lock m; printf "x\n" | while read -r _; do answer mutex_trylock m; done; read -r line < <(answer mutex_trylock m); printf "%s\n" "$line"'
  expect_output $'1\n1'
}

@test "trap: an EXIT trap that unlocks what was never won is refused" {
  start_shell holder 'mutex_lock m; latch locked; await finish; answer mutex_unlock m'
  await locked
  in_shell 'trap "answer mutex_unlock m" EXIT; mutex_lock m 0.1 || exit 5'
  expect_status 5
  expect_output 2
  expect_error '*mutex_unlock: m: *'
  latch finish
  end_of holder
  expect_output 0
}

@test "trap: runs at once during a wait, and its exit ends the script" {
  ln -s 1 m
  local signal
  for signal in TERM HUP USR1; do
    start_shell waiter "trap 'printf \"t\n\"; exit 3' $signal; mutex_lock m; printf 'no\n'"
    await_asleep waiter
    local begin=${EPOCHREALTIME/[^0-9]/}
    kill -"$signal" "${pids[waiter]}"
    end_of waiter
    (( ${EPOCHREALTIME/[^0-9]/} - begin < 1000000 ))
    expect_status 3
    expect_output t
    expect_quiet
  done
}

@test "trap: the same in every wait" {
  in_shell 'sem_init s; queue_init q'
  ln -s 1 m
  local command
  for command in 'mutex_lock m' 'wmutex_lock m' 'sem_wait s' 'queue_get q' 'queue_get -v x q 50'; do
    start_shell waiter "trap 'exit 3' TERM; $command"
    await_asleep waiter
    kill -TERM "${pids[waiter]}"
    end_of waiter
    (( status == 3 )) || fail "$command: $status" || return
  done
}

@test "trap: after it the wait goes on with the same deadline" {
  ln -s 1 m
  start_shell waiter 'trap "printf \"t\n\"" USR1; clock begin; answer mutex_lock m 1; clock end; printf "%s\n" "$((end - begin))"'
  await_asleep waiter
  kill -USR1 "${pids[waiter]}"
  until_true "$limit" test -s "$records/waiter.out"
  await_asleep waiter
  kill -USR1 "${pids[waiter]}"
  end_of waiter
  [[ $output == $'t\nt\n1\n'* ]]
  (( ${output##*$'\n'} >= 999 && ${output##*$'\n'} < 3000 ))
}

@test "trap: a wait goes on after it and still gets the lock" {
  start_shell holder 'mutex_lock m; latch locked; await finish; mutex_unlock m'
  await locked
  start_shell waiter 'trap "printf \"t\n\"" USR1; answer mutex_lock m 20; answer mutex_unlock m'
  await_asleep waiter
  kill -USR1 "${pids[waiter]}"
  until_true "$limit" test -s "$records/waiter.out"
  await_asleep waiter
  latch finish
  end_of waiter
  expect_output $'t\n0\n0'
}

@test "trap: return and break in one leave the wait" {
  ln -s 1 m
  start_shell waiter '
    trap "return 4" USR1; trap break USR2
    f() { mutex_lock m; }; answer f
    while :; do mutex_lock m || :; printf "not here\n"; done; printf "after\n"'
  await_asleep waiter
  kill -USR1 "${pids[waiter]}"
  until_true "$limit" test -s "$records/waiter.out"
  await_asleep waiter
  kill -USR2 "${pids[waiter]}"
  end_of waiter
  expect_output $'4\nafter'
}

@test "trap: untrapped TERM, HUP and INT kill at once" {
  ln -s 1 m
  local signal
  for signal in TERM HUP INT; do
    # A background process of a script starts with INT ignored.
    launch=(env --default-signal=INT)
    start_shell waiter 'mutex_lock m'
    await_asleep waiter
    kill -"$signal" "${pids[waiter]}"
    end_of waiter
    (( status == 128 + $(kill -l "$signal") )) || fail "$signal: $status" || return
  done
}

@test "trap: a killed waiter leaves nothing" {
  ln -s 1 m
  in_shell 'sem_init s; queue_init q'
  start_shell one 'mutex_lock m'
  start_shell two 'sem_wait s'
  start_shell three 'queue_get q'
  await_asleep one two three
  kill -KILL "${pids[one]}" "${pids[two]}" "${pids[three]}"
  end_of one; end_of two; end_of three
  expect_files m q s
  [[ $(find s q | sort | tr '\n' ' ') == 'q q/data q/sem q/sem/counter q/sem/owner q/sem/waitlock s s/counter s/owner s/waitlock ' ]]
  [[ ! -s q/data ]]
}

@test "trap: SIGCHLD does not end a wait" {
  ln -s 1 m
  in_shell 'trap "printf \"child\n\"" CHLD; ( : ) & answer mutex_lock m 0.5; wait; trap - CHLD'
  [[ $output == *$'\n1' || $output == 1 || $output == $'1\nchild' ]]
}

@test "trap: one that calls the same builtin while it waits" {
  in_shell 'sem_init s'
  start_shell waiter 'trap "answer sem_trywait s; answer mutex_trylock m; sem_post s 2" USR1; answer sem_wait s 20; sem_peek s'
  await_asleep waiter
  kill -USR1 "${pids[waiter]}"
  end_of waiter
  expect_output $'1\n0\n0\n1'
}

@test "trap: the message of a later error has the builtin's name again" {
  start_shell waiter 'trap "printf \"t\n\"" USR1; sem_init s; sem_wait s'
  await_asleep waiter
  kill -USR1 "${pids[waiter]}"
  until_true "$limit" test -s "$records/waiter.out"
  mv s elsewhere
  end_of waiter
  expect_status 3
  expect_error 'waiter: line [01]: sem_wait: s: *'
}

@test "trap: 60 posts from a trap beside a loop that peeks and takes" {
  start_shell taker '
    sem_init s; trap "sem_post s" TERM; latch ready
    taken=0
    while (( taken < 60 )); do
      sem_peek s >/dev/null
      if sem_trywait s; then taken=$((taken + 1)); printf "%s\n" "$taken" >taken; fi
    done
    sem_peek s'
  await ready
  local -i i
  for (( i = 1; i <= 60; i++ )); do
    # Signals that come before the trap has run are one signal for bash.
    kill -TERM "${pids[taker]}"
    until_true "$limit" is_taken "$i" || fail "stuck at $i" || return
  done
  end_of taker
  expect_output 0
  expect_quiet
}

is_taken() {
  local taken=0
  # shellcheck disable=SC2094 # two things of one name
  read -r taken <taken
  (( taken >= $1 ))
} 2>/dev/null

@test "trap: 60 signals 20 ms apart are 60 posts" {
  once_is_enough
  start_shell taker '
    posts=0; trap "sem_post s; latch post.\$((++posts))" TERM
    sem_init s; latch ready
    taken=0
    while [[ ! -e $LATCHES/sent ]] || (( taken < 60 )); do
      sem_peek s >/dev/null
      if sem_trywait s; then taken=$((taken + 1)); fi
    done
    sem_peek s; printf "%s\n" "$taken"'
  await ready
  local -i i
  for (( i = 1; i <= 60; i++ )); do
    kill -TERM "${pids[taker]}"
    # Signals that come while their own trap runs become one: the kernel's and bash's doing.
    await "post.$i"
    nap 0.02
  done
  latch sent
  end_of taker
  expect_output $'0\n60'
}

@test "trap: no dependence on variables of the script" {
  in_shell '
    readonly lock=1 timeout=x owner=y; declare -i name=7 status=7; readonly -a REPLY=(1)
    IFS=0123456789,; mutex_lock m 5; answer mutex_unlock m
    sem_init s 12; sem_peek s; queue_init q; queue_put q 120; queue_get q 5'
  expect_output $'0\n12\n120'
  expect_quiet
}

@test "trap: set -e sees the statuses like those of any command" {
  in_shell 'set -eu; mutex_lock m; if mutex_trylock m; then :; fi; mutex_trylock m || printf "busy\n"; mutex_trylock m; printf "not here\n"'
  expect_status 1
  expect_output busy
}

@test "trap: one that runs while queue_put reads stdin loses nothing of it" {
  mkfifo pipe
  start_shell putter 'queue_init q; trap "latch trapped" USR1; queue_put -f - q <pipe; queue_get q'
  exec {pipe}>pipe
  printf 'first ' >&"$pipe"
  until_true "$limit" is_at_pipe "${pids[putter]}"
  kill -USR1 "${pids[putter]}"
  await trapped
  printf 'second' >&"$pipe"
  exec {pipe}>&-
  end_of putter
  expect_output 'first second'
}

# Sleeps at a pipe.
is_at_pipe() {
  [[ $(tr -d '\0' <"/proc/$1/wchan") == *@(poll|pipe)* ]]
} 2>/dev/null

@test "trap: one that runs while an item is written to a slow reader tears nothing" {
  in_shell 'queue_init q; printf -v item "%300000s" x; queue_put q "$item"'
  mkfifo pipe
  start_shell getter 'trap "latch trapped" USR1; queue_get q >pipe; printf "%s\n" $?'
  exec {pipe}<pipe
  until_true "$limit" is_at_pipe "${pids[getter]}"
  kill -USR1 "${pids[getter]}"
  [[ $(wc -c <&"$pipe") -eq 300001 ]]
  end_of getter
  expect_output 0
  [[ -e $LATCHES/trapped ]]
}

# start_getter CODE: a script, a file, with CODE before it writes to a pipe that nobody reads.
start_getter() {
  printf '%s\n' '. "$INTERLOCK_PRELUDE"' "$1" 'queue_get q 0 >pipe' >getter
  [[ -p pipe ]] || mkfifo pipe
  exec {pipe}<>pipe
  start getter "$INTERLOCK_BASH" ./getter
  await_asleep getter
}

@test "trap: an item that is being written goes back when one ends a script that is a file" {
  in_shell 'queue_init q; printf -v item "%100000s" x; queue_put q "$item" next'
  local -i expected
  local code
  while read -r expected code; do
    start_getter "$code"
    kill -TERM "${pids[getter]}"
    end_of getter
    exec {pipe}>&-
    (( status == expected )) || fail "$code: $status" || return
    in_shell 'queue_len q; queue_peek -v item q; printf "%s\n" "${#item}"'
    expect_output $'2\n100000' || fail "$code" || return
  done <<'END'
3 trap 'exit 3' TERM
1 set -e; trap false TERM
3 trap 'sem_init s 1; sem_run s exit 3' TERM
3 f() { trap 'exit 3' TERM; queue_get q 0 >pipe; }; f
143 trap 'x=gone' EXIT
END
}

@test "trap: a subshell of one does not give back what its parent writes" {
  in_shell 'queue_init q; printf -v item "%100000s" x; queue_put q "$item"'
  start_getter "trap '(exit 3) || :; x=\$(exit 4) || :; latch trapped' USR1"
  kill -USR1 "${pids[getter]}"
  await trapped
  [[ $(head -c 100001 <&"$pipe" | wc -c) -eq 100001 ]]
  end_of getter
  expect_status 0
  in_shell 'queue_len q'
  expect_output 0
}

@test "trap: those who write to one pipe hear a signal when its reader stops" {
  once_is_enough
  in_shell 'queue_init q; printf -v item "%30000s" x; for i in {1..16}; do queue_put q "$item"; done'
  mkfifo pipe
  exec {pipe}<>pipe
  local who
  local -i i
  for who in 1 2 3 4; do
    start_shell "$who" 'while queue_get q 0; do :; done >pipe'
  done
  await_asleep 1 2 3 4
  for (( i = 0; i < 10; i++ )); do
    head -c 4096 <&"$pipe" >/dev/null
    # They race for the room, and who comes too late must not block.
    await_asleep 1 2 3 4
  done
  for who in 1 2 3 4; do
    kill -TERM "${pids[$who]}"
    end_of "$who"
    expect_status 143
  done
}

@test "trap: one runs while an item is written to a terminal that has room for less" {
  once_is_enough
  in_shell 'queue_init q; printf -v item "%030000d" 7; queue_put q "$item"'
  printf '%s\n' '. "$INTERLOCK_PRELUDE"; trap "latch trapped" USR1; latch ready; await stopped; queue_get q' >getter
  SHELL=$INTERLOCK_BASH start terminal script -qefc "exec '$INTERLOCK_BASH' ./getter" /dev/null
  await ready
  local child
  child_of "${pids[terminal]}"
  kill -STOP "${pids[terminal]}"
  await_stopped terminal
  latch stopped
  until_true "$limit" is_asleep "$child" || fail "it is deaf"
  kill -USR1 "$child"
  await trapped
  resume terminal
  end_of terminal
  expect_status 0
  [[ $(tr -dc 0-9 <"$records/terminal.out") == "$(printf '%030000d' 7)" ]]
}

@test "trap: a waiter that was stopped goes on" {
  start_shell holder 'mutex_lock m; latch locked; await finish; mutex_unlock m'
  await locked
  start_shell waiter 'answer mutex_lock m 20'
  await_asleep waiter
  kill -STOP "${pids[waiter]}"
  latch finish
  end_of holder
  [[ ! -L m ]]
  resume waiter
  end_of waiter
  expect_output 0
}
