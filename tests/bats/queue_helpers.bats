#!/usr/bin/env bats
# The queue article's helper functions in interlock.sh, on queues that the builtins use, too.

load helper

# The loader brings the functions; the builtins are there already.
in_loaded() {
  in_shell ". \"\$INTERLOCK_ROOT/shell/interlock.sh\"; $1" "${@:2}"
}

@test "queue helpers: the paths" {
  in_loaded 'queue_get_semaphore "a b"; queue_get_mutex "a b"; queue_get_data "a b"'
  expect_output $'a b/sem\na b/mutex\na b/data'
}

@test "queue helpers: what is appended and posted can be got" {
  in_loaded 'queue_init q
    queue_append q $'\''two\nlines\n'\''; sem_post q/sem
    queue_append q -n; sem_post q/sem
    queue_append q ""; sem_post q/sem
    for n in 1 2 3; do queue_get -v item q 0; printf "<%s>" "$item"; done; queue_len q'
  expect_output $'<two\nlines\n><-n><>0'
  expect_quiet
}

@test "queue helpers: takes the head behind what the builtins have consumed" {
  in_loaded 'queue_init q; queue_put q one two "" $'\''x\ny\n'\'' five
    queue_get q
    for n in 1 2 3 4; do sem_wait q/sem; mutex_lock q/mutex; item=$(queue_take_head q; printf .); mutex_unlock q/mutex; printf "<%s>" "$item"; done
    answer queue_take_head q; queue_len q; queue_put q again; queue_get q 0'
  expect_output $'one\n<two\n.><\n.><x\ny\n\n.><five\n.>1\n0\nagain'
  expect_quiet
}

@test "queue helpers: finished and unfinished remains of a killed consumer are skipped" {
  in_loaded 'queue_init q; printf "\0\0##==\n%s\n" "$(base64 <<<item)" >>q/data; queue_take_head q; answer queue_take_head q'
  expect_output $'item\n1'
  expect_quiet
}

@test "queue helpers: what a killed writer left is cut off" {
  in_loaded 'queue_init q; queue_put q first; printf dG9ybi >>q/data
    queue_append q second; sem_post q/sem; queue_get q 0; queue_get q 0
    printf dG9ybi >>q/data; answer queue_take_head q; wc -c <q/data'
  expect_output $'first\nsecond\n1\n0'
  expect_quiet
}

@test "queue helpers: a line that is not base64 is put aside" {
  in_loaded 'queue_init q; printf "no*base64\n%s\n" "$(base64 <<<item)" >>q/data; queue_take_head q; cat q/rejected'
  expect_output $'item\nno*base64'
  expect_error 'queue_take_head: q: * not base64 * q/rejected'
}

@test "queue helpers: no queue" {
  in_loaded 'answer queue_take_head none'
  expect_output 3
  expect_error 'none: no such queue'
  in_loaded 'answer queue_append none x'
  expect_output 3
  expect_error 'none: no such queue'
  expect_files
}
