#!/usr/bin/env bats
# wmutex_trylock, wmutex_lock, wmutex_unlock: no owner, never stale.

load helper

@test "weak mutex: locked, busy, unlocked by anybody" {
  in_shell '
    answer wmutex_lock w
    answer wmutex_trylock w
    shell "answer wmutex_trylock w; answer wmutex_unlock w; answer wmutex_unlock w"
    answer wmutex_trylock w'
  expect_output $'0\n1\n1\n0\n1\n0'
  expect_quiet
}

@test "weak mutex: the link is the process, plain" {
  in_shell 'wmutex_lock w; ( wmutex_lock v; printf "%s %s " "$BASHPID" "$(readlink v)" ); printf "%s %s\n" "$BASHPID" "$(readlink w)"'
  [[ $output =~ ^([0-9]+)\ ([0-9]+)\ ([0-9]+)\ ([0-9]+)$ ]]
  (( BASH_REMATCH[1] == BASH_REMATCH[2] && BASH_REMATCH[3] == BASH_REMATCH[4] && BASH_REMATCH[1] != BASH_REMATCH[3] ))
}

@test "weak mutex: it outlives its script" {
  in_shell 'wmutex_lock w'
  in_shell 'answer wmutex_trylock w; answer wmutex_lock w 1.2'
  expect_output $'1\n1'
}

@test "weak mutex: -f and -c are taken" {
  in_shell 'answer wmutex_lock -c w; answer wmutex_unlock -f w; answer wmutex_unlock -f w'
  expect_output $'0\n0\n1'
}

@test "weak mutex: used backwards it is a gate" {
  start_shell gate 'wmutex_lock gate; latch closed; answer wmutex_lock gate 20'
  await closed
  await_asleep gate
  in_shell 'answer wmutex_unlock gate'
  expect_output 0
  end_of gate
  expect_output 0
}

@test "weak mutex: what another program put there is left alone" {
  ln -s host-32 w
  in_shell 'answer wmutex_trylock w'
  expect_output 1
  : >v
  in_shell 'wmutex_unlock v'
  expect_status 3
  expect_error '*wmutex_unlock: v: *'
  expect_files v w
}
