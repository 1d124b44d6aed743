#!/usr/bin/env bats
# FIELD REPORTS: not a lock. What stands at the path is something else.

load helper


@test "not a lock: a file, a directory, a FIFO, a socket are a clear answer at once" {
  : >file
  mkdir directory
  mkfifo fifo
  /usr/bin/env python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")' 2>/dev/null || mkfifo socket
  local path command before
  before=$(stat -c '%n %i %F %Y %s' ./*)
  for path in file directory fifo socket; do
    for command in {,w}mutex_{trylock,unlock} {,w}mutex_lock 'mutex_unlock -f' 'wmutex_unlock -f'; do
      in_shell "$command $path"
      (( status == 3 )) || fail "$command $path: $status" || return
      expect_error "*${command% *}: $path: *" || return
    done
  done
  [[ $(stat -c '%n %i %F %Y %s' ./*) == "$before" ]]
}

@test "not a lock: a link with other text is busy, stays and nothing in it is evaluated" {
  local text
  for text in host-32 'a[$(touch X)]' ' 12' 012 '12 ' -1 '$$' '1+1' / . missing $'1\n' '1,2,3' '1,2,3,4,5,a[$(touch X)]'; do
    ln -s -- "$text" m
    in_shell 'answer mutex_trylock m; answer mutex_lock m 0.02; answer mutex_unlock m; answer wmutex_trylock m'
    [[ $output == $'1\n1\n2\n1' ]] || fail "$text: $output" || return
    [[ $(readlink -n m; printf x) == "${text}x" ]] || fail "$text: changed" || return
    expect_files m || return
    rm m
  done
}

@test "not a lock: a link with other text is not removed by force" {
  ln -s host-32 m
  in_shell 'mutex_unlock -f m'
  expect_status 3
  expect_error '*mutex_unlock: m: *'
  [[ -L m ]]
}

@test "not a lock: a link to a directory is not entered" {
  mkdir d
  ln -s d m
  in_shell 'answer mutex_trylock m; answer mutex_lock m 0.02'
  expect_output $'1\n1'
  [[ -z $(ls -A d) && $(readlink m) == d ]]
}

@test "not a lock: a directory is not entered, with a slash or without" {
  mkdir m
  in_shell 'mutex_trylock m/'
  expect_status 3
  in_shell 'mutex_trylock m'
  expect_status 3
  [[ -z $(ls -A m) ]]
}

@test "not a lock: a link of peers in a semaphore's place" {
  ln -s 1 s
  in_shell 'answer sem_init s 1; answer queue_init s'
  expect_output $'1\n1'
  in_shell 'sem_post s'
  expect_status 3
  in_shell 'queue_put s x'
  expect_status 3
  expect_files s
}

@test "not a lock: a FIFO in place of the counter or the data does not hang" {
  in_shell 'sem_init s; queue_init q'
  rm s/counter q/data
  mkfifo s/counter q/data
  limit=10
  local command
  for command in 'sem_wait s 5' 'sem_trywait s' 'sem_post s' 'sem_peek s' 'queue_put q x' 'queue_get q 5' 'queue_peek q'; do
    in_shell "$command"
    (( status == 3 || (status == 1) )) || fail "$command: $status" || return
  done
  in_shell 'sem_post s'
  expect_status 3
  expect_error '*sem_post: s/counter: *'
}
