#!/usr/bin/env bats
# mutex_trylock, mutex_lock, mutex_unlock: what they promise, one shell or two.

load helper

@test "mutex: locked, busy for another script, unlocked" {
  in_shell '
    answer mutex_lock m
    shell "answer mutex_trylock m"
    answer mutex_unlock m
    shell "answer mutex_trylock m"'
  expect_output $'0\n1\n0\n0'
  expect_quiet
}

@test "mutex: the link is six decimal numbers with the script last" {
  in_shell 'mutex_lock m; printf "%s %s %s\n" "$(readlink m)" "$$" "$BASHPID"; ( mutex_lock n; printf "%s %s\n" "$(readlink n)" "$BASHPID" )'
  local number='(0|[1-9][0-9]*)'
  [[ $output =~ ^$number,$number,$number,$number,$number,$number\ $number\ $number$'\n'$number,$number,$number,$number,$number,$number\ $number$ ]]
  local -a part=("${BASH_REMATCH[@]}")
  (( part[6] == part[7] && part[3] == part[8] ))
  (( part[2] > 0 && part[2] <= 0x7fffffff ))
  (( part[14] == part[7] && part[11] == part[15] && part[11] != part[3] ))
  (( part[4] > 0 && part[5] > 0 ))
  local link=${output%% *}
  (( ${#link} <= 59 ))
}

@test "mutex: the start time of the script is the kernel's" {
  in_shell 'mutex_lock m; readlink m; read -r line < "/proc/$$/stat"; printf "%s\n" "${line##*) }"'
  local -a fields numbers
  read -ra fields <<<"${output#*$'\n'}"
  IFS=, read -ra numbers <<<"${output%%$'\n'*}"
  (( numbers[4] == fields[19] && numbers[3] == fields[19] ))
}

@test "mutex: a lock that is not there cannot be unlocked" {
  in_shell 'answer mutex_unlock m'
  expect_output 1
  expect_quiet
}

@test "mutex: a timeout of 0 and an empty one try once" {
  in_shell '
    shell "mutex_lock m; latch locked; await finish" & await locked
    answer mutex_lock m 0; answer mutex_lock m ""; latch finish; wait'
  expect_output $'1\n1'
  expect_quiet
}

@test "mutex: a timeout with decimals ends when it is over" {
  in_shell '
    shell "mutex_lock m; latch locked; await finish" & await locked
    clock begin; answer mutex_lock m 0.3; clock end; latch finish
    printf "%s\n" "$((end - begin))"; wait'
  [[ $output == $'1\n'* ]]
  (( ${output#*$'\n'} >= 299 && ${output#*$'\n'} < 2000 ))
}

@test "mutex: a negative timeout waits for ever" {
  start_shell holder 'mutex_lock m; latch locked; await finish; mutex_unlock m'
  await locked
  start_shell waiter 'answer mutex_lock m -1; answer mutex_lock m -0.5 & wait; mutex_unlock m'
  await_asleep waiter
  latch finish
  end_of holder
  # The first wait is over, the second goes on: the script holds the lock itself.
  until_true "$limit" test -s "$records/waiter.out"
  nap 1.2
  refute has_ended "${pids[waiter]}"
  [[ $(<"$records/waiter.out") == 0 ]]
}

@test "mutex: a waiter gets it when it is unlocked" {
  start_shell holder 'mutex_lock m; latch locked; await finish; mutex_unlock m'
  await locked
  start_shell waiter 'answer mutex_lock m 20; clock end; printf "%s\n" "$end"'
  await_asleep waiter
  latch finish
  end_of waiter
  [[ $output == $'0\n'* ]]
  expect_quiet
}

@test "mutex: unlocking another script's lock is refused, and says whose it is" {
  start_shell holder 'mutex_lock m; latch locked; await finish'
  await locked
  in_shell 'mutex_unlock m'
  expect_status 2
  expect_error "*mutex_unlock: m: *${pids[holder]}*"
  [[ -L m ]]
}

@test "mutex: -f removes it whoever holds it" {
  start_shell holder 'mutex_lock m; latch locked; await finish'
  await locked
  in_shell 'answer mutex_unlock -f m; answer mutex_unlock -f m'
  expect_output $'0\n1'
  expect_quiet
  expect_files
}

@test "mutex: -f removes a peer's lock, too" {
  ln -s 1 m
  in_shell 'answer mutex_unlock -f m'
  expect_output 0
  expect_files
}

@test "mutex: what a peer locked is busy, and what we locked is busy for a peer" {
  in_shell '
    peer "peer_mutex_lock m; : >\"\$LATCHES/locked\"; sleep 30" & await locked
    answer mutex_trylock m; answer mutex_unlock m
    answer mutex_lock n; peer "peer_mutex_trylock n; printf \"%s\n\" \$?; peer_mutex_unlock n; printf \"%s\n\" \$?"
    answer mutex_unlock n; kill $!'
  expect_output $'1\n2\n0\n1\n2\n0'
}

@test "mutex: a peer's own owner check understands our link" {
  in_shell 'mutex_lock m; . "$INTERLOCK_PEER"; peer_mutex_unlock m; printf "%s\n" $?'
  expect_output 0
  expect_files
}

@test "mutex: two names for one lock are one lock" {
  mkdir d
  ln -s d e
  in_shell 'mutex_lock d/m; cd e; shell "answer mutex_trylock m"; answer mutex_unlock ../e/m'
  expect_output $'1\n0'
}

@test "mutex: nothing is left beside the lock" {
  in_shell 'for i in 1 2 3; do mutex_lock m; mutex_unlock m; done; mutex_lock m'
  expect_files m
}

@test "mutex: loading the plugin twice is harmless" {
  in_shell '
    mutex_lock m
    enable -f "$INTERLOCK_LIB" mutex_lock mutex_unlock 2>/dev/null
    shell "answer mutex_trylock m"; answer mutex_unlock m'
  expect_output $'1\n0'
}

@test "mutex: unloading it while it waits" {
  start_shell waiter 'trap "enable -d mutex_lock" USR1; ln -s 1 m; answer mutex_lock m 20; type -t mutex_lock || :'
  await_asleep waiter
  kill -USR1 "${pids[waiter]}"
  await_asleep waiter
  rm m
  end_of waiter
  expect_status 0
  expect_output 0
}

@test "mutex: ten thousand rounds leave no descriptor" {
  in_shell '
    count() { local -a fds=(/proc/$$/fd/*); printf "%s\n" "${#fds[@]}"; }
    mutex_lock m; mutex_unlock m; count
    for (( i = 0; i < 10000; i++ )); do mutex_lock m; mutex_unlock m; done; count
    for (( i = 0; i < 100; i++ )); do mutex_lock m; ( mutex_unlock m ); done; count'
  [[ $output =~ ^([0-9]+)$'\n'([0-9]+)$'\n'([0-9]+)$ ]]
  (( BASH_REMATCH[2] == BASH_REMATCH[1] && BASH_REMATCH[3] <= BASH_REMATCH[1] + 2 ))
}
