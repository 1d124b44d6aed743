#!/usr/bin/env bats
# sem_init, sem_wait, sem_trywait, sem_post, sem_peek, sem_destroy.

load helper

@test "semaphore: counts" {
  in_shell '
    answer sem_init s 2; sem_peek s
    answer sem_wait s; answer sem_trywait s; answer sem_trywait s; sem_peek s
    answer sem_post s; sem_peek s; answer sem_wait s 5; answer sem_wait s 0'
  expect_output $'0\n2\n0\n0\n1\n0\n0\n1\n0\n1'
  expect_quiet
}

@test "semaphore: on disk it is a counter, an owner and, without tokens, a waitlock" {
  in_shell 'sem_init s; sem_init t 3; readlink s/owner s/waitlock t/owner'
  [[ $(ls -A s) == $'counter\nowner\nwaitlock' && $(ls -A t) == $'counter\nowner' ]]
  [[ $(od -c s/counter) == "$(printf '0\n' | od -c)" && $(<t/counter) == 3 ]]
  local line
  while IFS= read -r line; do
    [[ $line =~ ^[0-9]+,0,[0-9]+,[0-9]+,[0-9]+,${pids[shell]}$ ]]
  done <<<"$output"
  in_shell 'sem_post s; sem_wait t; sem_trywait t'
  [[ $(ls -A s) == $'counter\nowner' && $(<t/counter) == 1 && ! -e t/waitlock ]]
  in_shell 'sem_wait t'
  [[ -L t/waitlock && $(<t/counter) == 0 ]]
}

@test "semaphore: a missing value is 0" {
  in_shell 'sem_init s; sem_peek s'
  expect_output 0
}

@test "semaphore: several tokens with one post" {
  in_shell 'sem_init s; sem_post s 12; sem_peek s; sem_post s 0; sem_peek s'
  expect_output $'12\n12'
}

@test "semaphore: a post lets a waiter pass" {
  start_shell waiter 'sem_init s; latch ready; answer sem_wait s 20; sem_peek s'
  await ready
  await_asleep waiter
  in_shell 'answer sem_post s'
  expect_output 0
  end_of waiter
  expect_output $'0\n0'
}

@test "semaphore: one post of three lets three waiters pass, a fourth waits" {
  in_shell 'sem_init s'
  local who
  for who in 1 2 3 4; do
    start_shell "$who" 'sem_wait s 20; printf "x\n" >>passed'
  done
  await_asleep 1 2 3 4
  in_shell 'sem_post s 3'
  until_true "$limit" has_lines 3 passed
  in_shell 'sem_peek s; answer sem_trywait s; sem_post s'
  expect_output $'0\n1'
  until_true "$limit" has_lines 4 passed
}

has_lines() {
  [[ -e $2 && $(wc -l <"$2") -eq $1 ]]
}

@test "semaphore: a timeout leaves nothing behind" {
  in_shell 'sem_init s; answer sem_wait s 0.2; sem_peek s'
  expect_output $'1\n0'
  expect_quiet
  [[ $(ls -A s) == $'counter\nowner\nwaitlock' ]]
}

@test "semaphore: into a variable, without a subshell" {
  in_shell '
    sem_init s 42; sem_peek -v value s; printf "%s\n" "$value"
    f() { local value=1; sem_peek -v value s; printf "%s\n" "$value"; }; value=outer; f; printf "%s\n" "$value"
    value=old; answer sem_peek -v value missing; printf "%s\n" "${value-unset}"'
  expect_output $'42\n42\nouter\n3\nunset'
}

@test "semaphore: destroyed only by its owner, or by force" {
  in_shell 'sem_init s 1'
  in_shell 'sem_destroy s'
  expect_status 2
  expect_error '*sem_destroy: s: *'
  in_shell 'sem_peek s; answer sem_destroy -f s'
  expect_output $'1\n0'
  in_shell 'sem_init s 1; ( answer sem_destroy s )'
  expect_output 0
  expect_files
}

@test "semaphore: destroyed while one waits ends that wait with an error" {
  in_shell 'sem_init s'
  start_shell waiter 'sem_wait s 20'
  await_asleep waiter
  in_shell 'answer sem_destroy -f s'
  expect_output 0
  end_of waiter
  expect_status 3
  expect_error '*sem_wait: s: *'
  expect_files
}

@test "semaphore: destroy leaves a directory with something else in it" {
  in_shell 'sem_init s 3; : >s/mine; answer sem_destroy s; sem_peek s; answer sem_destroy -f s'
  expect_output $'3\n3\n3'
  [[ -f s/mine && $(<s/counter) == 3 ]]
}

@test "semaphore: old objects have no owner" {
  in_peer 'peer_sem_init s 2'
  rm s/owner
  in_shell 'answer sem_wait s; sem_peek s; answer sem_destroy s'
  expect_output $'0\n1\n0'
}

@test "semaphore: one that peers made and one that peers use" {
  in_peer 'peer_sem_init s 1; peer_sem_init t 0'
  in_shell '
    answer sem_wait s; answer sem_trywait s
    sem_post t; sem_init u 2
    peer "peer_sem_wait t 0; printf \"%s \" \$?; peer_sem_wait t 0; printf \"%s \" \$?; peer_sem_post s; peer_sem_wait u 0; peer_sem_wait u 0; peer_sem_wait u 0; printf \"%s\n\" \$?"
    answer sem_wait s; cat s/counter t/counter u/counter'
  expect_output $'0\n1\n0 1 1\n0\n0\n0\n0'
}

@test "semaphore: -1 left by peers is no token" {
  in_shell 'sem_init s; printf -- "-1\n" >s/counter; sem_peek s; answer sem_trywait s; sem_post s; answer sem_trywait s; sem_peek s; sem_post s; answer sem_trywait s'
  expect_output $'-1\n1\n1\n0\n0'
}

@test "semaphore: a dead holder of countlock is repaired, its half post too" {
  in_shell 'sem_init s'
  # Writes the counter, dies before it removes waitlock.
  stop_before unlinkat 1
  start_shell poster 'sem_post s'
  await_stopped poster
  kill -KILL "${pids[poster]}"
  end_of poster
  launch=()
  [[ -L s/countlock && $(<s/counter) == 1 ]]
  in_shell 'answer sem_trywait s; answer sem_trywait s; sem_peek s'
  expect_output $'0\n1\n0'
  [[ ! -L s/countlock ]]
}

@test "semaphore: a peer that died with countlock is told, not robbed" {
  in_shell 'sem_init s 1'
  ln -s 99999 s/countlock
  limit=60
  in_shell 'sem_post s'
  expect_status 3
  expect_error '*sem_post: s/countlock: *'
  [[ -L s/countlock && $(<s/counter) == 1 ]]
}

@test "semaphore: a claim that a dead peer left is given back after a while" {
  in_shell 'sem_init s 1'
  ln -s 99999 s/waitlock
  in_shell 'answer sem_trywait s; answer sem_wait s 10; sem_peek s'
  expect_output $'1\n0\n0'
}
