#!/usr/bin/env bats
# FIELD REPORTS: being quiet.

load helper

@test "quiet: busy, timed out, empty and not locked print nothing" {
  ln -s 1 m
  in_shell '
    sem_init s; queue_init q
    for i in "mutex_trylock m" "mutex_lock m 0.02" "mutex_unlock n" "wmutex_trylock m" "wmutex_lock m 0.02" "wmutex_unlock n" \
      "sem_init s" "sem_trywait s" "sem_wait s 0.02" "queue_init q" "queue_get q 0" "queue_get q 0.02" "queue_get -v x q 0" "queue_get -a x -n 3 q 0" "queue_peek q"; do
      answer $i
    done'
  [[ $output != *[!1$'\n']* && $(wc -l <<<"$output") -eq 15 ]] || fail "$output"
  expect_quiet
}

@test "quiet: success prints nothing" {
  in_shell '
    mutex_lock m; mutex_unlock m; wmutex_lock m; wmutex_unlock m; sem_init s; sem_post s; sem_wait s; sem_destroy s
    queue_init q; queue_put q x; queue_get -v x q; queue_destroy q'
  expect_output ''
  expect_quiet
}

@test "quiet: an error is one line in the form of bash, with path and reason" {
  in_shell '
    mutex_lock no/m'
  expect_status 3
  # Before 5.1, bash -c counts from 0.
  [[ $errors == 'shell: line '[12]': mutex_lock: no/m: No such file or directory' ]] || fail "$errors"
}

@test "quiet: an error in a script names the script and its line" {
  printf '%s\n' '. "$INTERLOCK_PRELUDE"' 'sem_post missing' >script
  start script "$INTERLOCK_BASH" script
  end_of script
  [[ $errors == 'script: line 2: sem_post: missing: No such file or directory' ]] || fail "$errors"
}

@test "quiet: a name with a newline or an escape sequence keeps the message one harmless line" {
  in_shell 'mutex_lock "$1"' $'no\n\e[31m/m'
  expect_status 3
  expect_error '*mutex_lock: *'
  [[ $errors != *$'\e'* ]]
}

@test "quiet: a closed or full stdout is status 3 with one line" {
  local command
  for command in 'sem_peek s' 'queue_get q' 'queue_peek q' 'queue_len q'; do
    rm -rf s q
    in_shell 'sem_init s 1; queue_init q; queue_put q x; '"$command >&-"
    (( status == 3 )) || fail "$command: $status" || return
    expect_error "*${command% *}: *" || return
    in_shell "$command >/dev/full"
    (( status == 3 )) || fail "$command: $status" || return
    expect_error "*${command% *}: *" || return
    in_shell 'queue_len q; cat q/sem/counter'
    expect_output $'1\n1'
  done
}
