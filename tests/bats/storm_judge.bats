#!/usr/bin/env bats
# The judge of tests/storm catches each kind of wrong history, and lets right ones pass.

load helper

every_mode=no

# Reads a history whose events have no times: they are numbered.
judge() {
  awk '{ print 1000000 * NR, $0 }' >history
  output=$(awk -v counts=/dev/null -f "$INTERLOCK_ROOT/tests/lib/storm-judge.awk" history history)
}

expect_right() {
  judge
  [[ -z $output ]] || fail "a right history is called wrong:" "$output"
}

# expect_wrong PATTERN
expect_wrong() {
  judge
  # shellcheck disable=SC2053 # a pattern
  [[ $output == $1 ]] || fail "not called '$1' but:" "$output"
}

@test "judge: sections do not overlap" {
  printf '%s\n' '1 start m a' '1 leave a' '2 start m b' '2 leave b' | expect_right
  printf '%s\n' '1 start m a' '2 start d b' '1 leave a' '2 leave b' | expect_right
  printf '%s\n' '1 start m a' '2 start m b' '1 leave a' '2 leave b' | expect_wrong '* m is held by 1/a and by 2/b'
}

@test "judge: a section ends with its shell, or later in its subshell" {
  printf '%s\n' '1 start m a' '1 died' '2 start m b' '2 leave b' | expect_right
  printf '%s\n' '1 died' '1 start m a' '2 start m b' '2 leave b' | expect_right
  printf '%s\n' '1 start m a' '1 died' '2 start m b' '1 leave a' '2 leave b' | expect_wrong '* m is held by *'
}

@test "judge: a semaphore of 2 gives 2 tokens and what was posted" {
  local two=('1 begin a sem_wait s' '1 end a 0' '1 begin b sem_wait s' '1 end b 0')
  printf '%s\n' "${two[@]}" '2 begin c sem_post s' '1 begin d sem_wait s' '1 end d 0' '2 end c 0' '2 final 0' | expect_right
  printf '%s\n' "${two[@]}" '1 begin d sem_wait s' '1 end d 0' | expect_wrong '* shell 1 took what was not there: sem_wait'
  printf '%s\n' "${two[@]}" '2 begin c sem_post s' '2 end c 0' '2 final 2' | expect_wrong '*has 2 tokens and should have 1*'
  printf '%s\n' "${two[@]}" '2 begin c sem_post s' '2 end c 0' '2 final 0' | expect_wrong '*has 0 tokens and should have 1*'
}

@test "judge: a post or wait of a dying shell may be done or not" {
  local last
  for last in 1 2 3; do
    printf '%s\n' '1 begin a sem_post s' '1 died' '2 begin b sem_wait s' '2 died' "3 final $last" | expect_right
  done
  printf '%s\n' '1 begin a sem_post s' '1 died' '3 final 1' | expect_wrong '*has 1 tokens*'
}

@test "judge: a weak mutex is locked once and unlocked once" {
  printf '%s\n' '1 begin a wmutex_lock w 1' '1 end a 0' '2 begin b wmutex_unlock w' '2 end b 0' | expect_right
  printf '%s\n' '1 begin a wmutex_lock w 1' '1 end a 0' '2 begin b wmutex_lock w 1' '2 end b 0' | expect_wrong '*took what was not there*'
  printf '%s\n' '2 begin b wmutex_unlock w' '2 end b 0' | expect_wrong '*unlocked what was not locked'
}

@test "judge: items come out once, in order, and after they went in" {
  local one=('1 begin a queue_put q i1' '1 end a 0') two=('1 begin b queue_put q i2' '1 end b 0')
  printf '%s\n' "${one[@]}" "${two[@]}" '2 begin c queue_get q 2 -' '2 end c 0 i1 i2' | expect_right
  printf '%s\n' "${one[@]}" '2 begin c queue_get q 1 -' '2 end c 0 i1' '2 begin d queue_get q 1 -' '2 end d 0 i1' | expect_wrong '* i1 came out twice'
  printf '%s\n' "${one[@]}" "${two[@]}" '2 begin c queue_get q 1 -' '2 end c 0 i2' '2 begin d queue_get q 1 -' '2 end d 0 i1' | expect_wrong '* i2 came out before i1'
  printf '%s\n' '2 begin c queue_get q 1 -' '2 end c 0 i1' "${one[@]}" | expect_wrong '* i1 came out before it was put'
  printf '%s\n' '2 begin c queue_get q 1 -' '2 end c 0 i1' | expect_wrong '* i1 was never put'
}

@test "judge: an item is lost only with a consumer that had it" {
  local one=('1 begin a queue_put q i1' '1 end a 0')
  printf '%s\n' "${one[@]}" '2 begin c queue_get q 1 -' '2 died' | expect_right
  printf '%s\n' '1 begin a queue_put q i1' '1 died' | expect_right
  printf '%s\n' "${one[@]}" | expect_wrong '* i1 is lost*'
  printf '%s\n' '2 begin c queue_get q 1 -' '2 died' "${one[@]}" | expect_wrong '* i1 is lost*'
  # A kill takes its time.
  printf '%s\n' '2 begin c queue_get q 1 -' '2 died' "${one[@]}" '2 gone' | expect_right
  # Another had come out, so this one was not the next when the consumer began.
  printf '%s\n' "${one[@]}" '1 begin b queue_put q i2' '1 end b 0' '3 begin d queue_get q 1 -' '3 end d 0 i2' '2 begin c queue_get q 1 -' '2 died' |
    expect_wrong '* i1 is lost*'
}

@test "judge: statuses, and limits that are kept" {
  printf '%s\n' '1 begin a mutex_trylock m' '1 end a 1' '1 begin b mutex_lock -c m 0.5' '1 end b 1' | expect_right
  printf '%s\n' '1 begin b mutex_lock m' '1 end b 1' | expect_wrong '* said no'
  printf '%s\n' '1 begin b sem_wait s 3' '1 end b 1' | expect_wrong '* gave up too early'
  printf '%s\n' '1 begin b sem_post s 3' '1 end b 3' | expect_wrong '* ended with 3'
  printf '%s\n' '1 bad descriptors' | expect_wrong '* shell 1: descriptors'
}
