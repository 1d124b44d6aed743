#!/usr/bin/env bats
# FIELD REPORTS: inherited locks. What programs started by a script do to its locks.

load helper

# A program that lives until it is killed, and tells its process.
PROGRAM='sh -c "echo \$\$ >\"\$LATCHES/program\"; exec sleep 300"'

await_program() {
  until_true "$limit" test -s "$LATCHES/program" || fail "no program" || return
  program=$(<"$LATCHES/program")
}

@test "inherited: a program started inside does not keep an unlocked lock" {
  in_shell '
    mutex_lock m; sleep 300 & mutex_unlock m
    shell "answer mutex_trylock m"; kill $!'
  expect_output 0
}

@test "inherited: nor does a daemon in a session of its own" {
  in_shell '
    mutex_lock m; setsid sleep 300 >/dev/null 2>&1 & mutex_unlock m
    shell "answer mutex_lock m 5"'
  expect_output 0
}

@test "inherited: nor does one that was started in a subshell that unlocks" {
  in_shell 'mutex_lock m; ( sleep 300 >/dev/null & mutex_unlock m ); shell "answer mutex_trylock m"'
  expect_output 0
}

@test "inherited: outside a locked section no descriptor is passed on" {
  start plain "$INTERLOCK_BASH" -c 'ls /proc/self/fd'
  end_of plain
  local before=$output
  in_shell '
    ls /proc/self/fd
    mutex_lock m; mutex_unlock m; ln -s 1 n; mutex_lock n 0.05 || :; rm n
    sem_init s; sem_wait s 0.05 || :; queue_init q; queue_put q x; queue_get q >/dev/null; queue_get q 0.05 || :
    ls /proc/self/fd; ( ls /proc/self/fd )'
  expect_output "$before"$'\n'"$before"$'\n'"$before"
}

@test "inherited: inside one with -c no descriptor is passed on, without -c one is" {
  start plain "$INTERLOCK_BASH" -c 'ls /proc/self/fd'
  end_of plain
  local before=$output
  in_shell 'mutex_lock -c m; ls /proc/self/fd; mutex_unlock m; mutex_trylock -c m; ls /proc/self/fd'
  expect_output "$before"$'\n'"$before"
  in_shell 'mutex_lock m; set -- $(ls /proc/self/fd); printf "%s\n" $#'
  (( output == $(wc -w <<<"$before") + 1 ))
}

@test "inherited: the lock of a subshell that became a program is held while that lives" {
  in_shell '
    ( mutex_lock m; latch locked; exec sleep 300 ) & await locked
    until read -r name <"/proc/$!/comm" && [[ $name == sleep ]]; do nap; done
    shell "answer mutex_trylock m; answer mutex_lock m 1.2"
    kill $!; wait $! || :
    shell "answer mutex_lock m 5"'
  [[ $output == $'1\n1\n0' ]]
}

@test "inherited: a killed script keeps the lock until the program in its section ends" {
  start_shell holder "mutex_lock m; $PROGRAM; :"
  await_program
  kill -KILL "${pids[holder]}"
  in_shell 'answer mutex_trylock m; answer mutex_lock m 1.2'
  expect_output $'1\n1'
  start_shell waiter 'answer mutex_lock m 10'
  await_asleep waiter
  kill "$program"
  end_of waiter
  expect_output 0
}

@test "inherited: with -c a killed script's lock is free at once" {
  start_shell holder "mutex_lock -c m; $PROGRAM; :"
  await_program
  kill -KILL "${pids[holder]}"
  in_shell 'answer mutex_lock m 5'
  expect_output 0
  kill "$program"
}

@test "inherited: a program started before the lock does not keep it" {
  start_shell holder 'sleep 300 & mutex_lock m; latch locked; await never 60'
  await locked
  kill -KILL "${pids[holder]}"
  in_shell 'answer mutex_lock m 5'
  expect_output 0
}

@test "inherited: leaving a script without unlocking frees the lock" {
  in_shell 'mutex_lock m'
  [[ -L m ]]
  in_shell 'answer mutex_trylock m'
  expect_output 0
}

@test "inherited: variables set between lock and unlock survive" {
  in_shell 'mutex_lock m; value=kept; array=(a b); mutex_unlock m; printf "%s %s\n" "$value" "${array[*]}"'
  expect_output 'kept a b'
}
