#!/usr/bin/env bats
# The pure-bash peer alone: it must be right, or the mixed runs prove nothing.

load helper

# The same in every mode.
every_mode=no

@test "peer: a mutex excludes, and only its owner opens it" {
  in_peer '
    peer_mutex_lock m; readlink m
    "$BASH" -c ". \"\$INTERLOCK_PEER\"; peer_mutex_trylock m; printf \"%s\n\" \$?; peer_mutex_unlock m; printf \"%s\n\" \$?"
    peer_mutex_unlock m; printf "%s\n" "$? $$"'
  expect_output "${output##* }"$'\n1\n2\n0 '"${output##* }"
  expect_files
}

@test "peer: a timeout is counted in pauses" {
  in_peer 'ln -s 1 m; peer_mutex_lock m 3; printf "%s\n" $?'
  expect_output 1
}

@test "peer: a semaphore lets as many pass as were posted" {
  in_peer '
    peer_sem_init s 2
    for i in 1 2 3; do peer_sem_wait s 0; printf "%s " $?; done
    peer_sem_post s
    peer_sem_wait s 0; printf "%s\n" $?
    cat s/counter'
  expect_output $'0 0 1 0\n0'
}

@test "peer: a queue gives back lines in order" {
  in_peer '
    peer_queue_init q
    peer_queue_put q one; peer_queue_put q "$1"
    peer_queue_get q; peer_queue_get q; peer_queue_get q 0; printf "%s\n" $?
    peer_queue_destroy q' $'two\nlines'
  expect_output $'one\ntwo\nlines\n1'
  expect_files
}

@test "peer: it can be stopped between any two steps" {
  start_peer poster '
    peer_at() { if [[ $1 == post-unlocked ]]; then kill -STOP "$BASHPID"; fi; }
    peer_sem_init s 0; peer_sem_post s'
  await_stopped poster
  [[ $(<s/counter) == 1 && -L s/waitlock && ! -L s/countlock ]]
  kill -CONT "${pids[poster]}"
  end_of poster
  expect_status 0
  [[ ! -L s/waitlock ]]
}
