#!/usr/bin/env bats
# bakery_trylock, bakery_lock, bakery_unlock: first come, first served.

load helper

@test "bakery: entered, busy for another script, left" {
  in_shell '
    answer bakery_lock b; shell "answer bakery_trylock b; answer bakery_lock b 0.02; answer bakery_unlock b 2>/dev/null"
    answer bakery_unlock b; answer bakery_unlock b; shell "answer bakery_trylock b; answer bakery_unlock b"'
  expect_output $'0\n1\n1\n2\n0\n1\n0\n0'
  expect_quiet
  [[ -d b && -z $(ls -A b) ]]
}

@test "bakery: a participant is a file named by its identity" {
  in_shell 'bakery_lock b; printf "%s\n" "$$" b/*'
  [[ $output =~ ^([0-9]+)$'\nb/'[0-9]+,[0-9]+,[0-9]+,[0-9]+,[0-9]+,([0-9]+)$ ]]
  (( BASH_REMATCH[1] == BASH_REMATCH[2] ))
}

@test "bakery: served in the order of arrival" {
  start_shell baker 'bakery_lock b; latch open; await finish; bakery_unlock b'
  await open
  local -i i
  for (( i = 1; i <= 8; i++ )); do
    start_shell "$i" 'bakery_lock b 30; printf "%s\n" "$1" >>served; bakery_unlock b' "$i"
    await_asleep "$i"
  done
  latch finish
  for (( i = 1; i <= 8; i++ )); do
    end_of "$i"
    expect_status 0
  done
  [[ $(tr '\n' ' ' <served) == '1 2 3 4 5 6 7 8 ' ]]
  [[ -z $(ls -A b) ]]
}

@test "bakery: a timeout gives the ticket up" {
  in_shell 'bakery_lock b; shell "answer bakery_lock b 0.1"; ls b | wc -l; answer bakery_unlock b'
  expect_output $'1\n1\n0'
}

@test "bakery: a killed baker and a killed customer are passed over" {
  start_shell baker 'bakery_lock b; latch open; await never 60'
  await open
  start_shell first 'bakery_lock b 60'
  await_asleep first
  start_shell second 'answer bakery_lock b 20; answer bakery_unlock b'
  await_asleep second
  kill -KILL "${pids[first]}"
  kill -KILL "${pids[baker]}"
  end_of second
  expect_output $'0\n0'
  expect_quiet
  [[ -z $(ls -A b) ]]
}

@test "bakery: eight workers do not overlap, on tmpfs and on disk" {
  local dir
  limit=100
  for dir in "$T" "$disk"; do
    cd "$dir"
    in_shell '
      printf "0\n" >counter
      for i in 1 2 3 4 5 6 7 8; do
        ( for ((j = 0; j < $1; j++)); do bakery_lock b 60; read -r n <counter; printf "%s\n" "$((n + 1))" >counter; bakery_unlock b; done ) &
      done; wait; cat counter' 25
    expect_output 200
    expect_quiet
    [[ -z $(ls -A b) ]]
  done
}

@test "bakery: a trap that leaves the wait leaves no ticket behind" {
  start_shell baker 'bakery_lock b; latch open; await finish; bakery_unlock b'
  await open
  start_shell waiter 'trap "return 4" USR1; f() { bakery_lock b; }; answer f; ls b | wc -l'
  await_asleep waiter
  kill -USR1 "${pids[waiter]}"
  end_of waiter
  expect_output $'4\n1'
  in_shell 'answer bakery_trylock b'
  expect_output 1
  latch finish
  end_of baker
  in_shell 'answer bakery_trylock b'
  expect_output 0
}

@test "bakery: a trap may use the same bakery" {
  start_shell baker 'bakery_lock b; latch open; await finish; bakery_unlock b'
  await open
  start_shell waiter 'trap "answer bakery_trylock b" USR1; answer bakery_lock b 20; answer bakery_unlock b'
  await_asleep waiter
  kill -USR1 "${pids[waiter]}"
  until_true "$limit" test -s "$records/waiter.out"
  await_asleep waiter
  latch finish
  end_of waiter
  expect_output $'1\n0\n0'
}

@test "bakery: what is not a participant's file does not stand in line" {
  mkdir b
  : >b/README
  : >b/1,2,3
  in_shell 'answer bakery_lock b 5; answer bakery_unlock b'
  expect_output $'0\n0'
  [[ $(ls b) == $'1,2,3\nREADME' ]]
}

@test "bakery: something else at its name is an error at once" {
  : >file
  in_shell 'bakery_lock file 5'
  expect_status 3
  expect_error '*bakery_lock: file: Not a directory'
  in_shell 'bakery_trylock no/b'
  expect_status 3
  expect_error '*bakery_trylock: no/b: No such file or directory'
}
