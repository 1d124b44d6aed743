#!/usr/bin/env bats
# The articles about mkdir, about locks done right, and about Lamport's bakery: what their scripts show, with the plugin.

load helper

# Two writers, each with a beginning and an end; the first waits until the second has begun too, or cannot begin.
WRITERS='
writer() {
  local me=$1 other=$2
  "${lock[@]}"
  printf "start from %s\n" "$me" >>target.txt
  latch "$me"
  await_other "$other"
  printf "end   from %s\n" "$me" >>target.txt
  "${unlock[@]}"
}'

@test "article: without a lock the lines of two writers interleave" {
  in_shell "$WRITERS"'
    lock=(:) unlock=(:)
    await_other() { await "$1"; }
    writer p1 p2 & writer p2 p1 & wait'
  expect_quiet
  [[ $(cut -d" " -f1 target.txt | tr "\n" " ") == 'start start end end ' ]]
}

@test "article: with the lock directory they do not" {
  in_shell "$WRITERS"'
    lock=(dirlock_lock lockdir) unlock=(dirlock_unlock lockdir)
    # Time enough for the other to begin, if it could.
    await_other() { [[ -e $LATCHES/$1 ]] || nap 0.05; }
    writer p1 p2 & writer p2 p1 & wait'
  expect_quiet
  local one=$'start from p1\nend   from p1' two=$'start from p2\nend   from p2'
  [[ $(<target.txt) == "$one"$'\n'"$two" || $(<target.txt) == "$two"$'\n'"$one" ]]
  expect_files target.txt
}

@test "article: nor with one writer that only knows mkdir" {
  in_shell "$WRITERS"'
    await_other() { [[ -e $LATCHES/$1 ]] || nap 0.05; }
    plain() { until mkdir lockdir 2>/dev/null; do nap; done; }
    ( lock=(plain) unlock=(rmdir lockdir); writer p1 p2 ) &
    ( lock=(dirlock_lock lockdir) unlock=(dirlock_unlock lockdir); writer p2 p1 ) &
    wait'
  expect_quiet
  local one=$'start from p1\nend   from p1' two=$'start from p2\nend   from p2'
  [[ $(<target.txt) == "$one"$'\n'"$two" || $(<target.txt) == "$two"$'\n'"$one" ]]
}

@test "article: the waiting loop" {
  start_shell holder 'dirlock_lock d; latch locked; await waiting; dirlock_unlock d'
  await locked
  in_shell '
    until dirlock_trylock d; do latch waiting; nap; done
    printf "finally\n"; dirlock_unlock d'
  expect_output finally
  end_of holder
  expect_status 0
  expect_files
}

@test "article: of two wrappers started at the same instant exactly one runs" {
  once_is_enough
  limit=200
  in_shell '
    wrapper() {
      : <gate
      dirlock_trylock job || return 0
      printf "ran\n" >>"ran.$1"
      # The other has asked meanwhile.
      latch "$1.$2"; await "$1.asked"
      dirlock_unlock job
    }
    mkfifo gate
    for ((round = 0; round < $1; round++)); do
      ( wrapper "$round" a; latch "$round.asked" ) & ( wrapper "$round" b; latch "$round.asked" ) &
      exec 7>gate; wait; exec 7>&-
    done 2>/dev/null
    for ((round = 0; round < $1; round++)); do mapfile -t ran <"ran.$round"; printf "%s\n" "${#ran[@]}"; done | sort | uniq -c' 100
  local -r each='^ *100 1$'
  [[ $output =~ $each ]] || fail "$output"
}

# A script that cleans up in its handlers, as in the article.
HANDLERS='
trap_exit() { printf "exit\n"; dirlock_unlock d; }
trap_int() { printf "int\n"; exit 1; }
trap_term() { printf "term\n"; exit 3; }
trap trap_exit EXIT; trap trap_int INT; trap trap_term TERM
dirlock_lock d
latch locked'

@test "article: handlers for EXIT, INT and TERM clean up and tell how it ended" {
  local signal name expected
  for signal in none INT TERM; do
    rm -f "$LATCHES/locked"
    if [[ $signal == none ]]; then
      in_shell "$HANDLERS"
      expected=$'0\nexit'
    else
      # While it waits for another lock, too.
      mkdir other
      # In the background it would be ignored.
      launch=(env --default-signal=INT)
      start_shell script "$HANDLERS"'; dirlock_lock other 60'
      await locked
      await_asleep script
      kill -s "$signal" "${pids[script]}"
      end_of script
      rmdir other
      expected=3
      [[ $signal == TERM ]] || expected=1
      expected+=$'\n'${signal,,}$'\nexit'
    fi
    [[ $status$'\n'$output == "$expected" ]] || fail "$signal: $status: $output" || return
    expect_quiet || return
    expect_files || return
  done
}

@test "article: the lock of an owner that is gone is taken over, and tells the new one" {
  in_shell 'dirlock_lock d; kill -KILL "$BASHPID"'
  expect_status 137
  [[ -e d/owner ]]
  in_shell '
    dirlock_lock d
    { IFS=, read -r place nonce holder start script_start script; read -r program; } <d/owner
    (( script == $$ && holder == $$ )) && printf "%s\n" "$program"
    dirlock_unlock d'
  expect_output shell
  expect_files
}

@test "article: customers at the bakery take numbers and are served in their order" {
  in_shell '
    bakery_lock shop
    for i in 1 2 3 4 5; do
      ( bakery_lock shop; printf "customer %s\n" "$i"; bakery_unlock shop ) &
      until numbers=(shop/*); ((${#numbers[@]} == i + 1)); do nap; done
      until cat shop/* 2>/dev/null | grep -q "^0 0*$((i + 1)) 0$"; do nap; done
    done
    cut -d" " -f2,3 shop/* | sort | sed "s/^0*//"
    bakery_unlock shop
    wait'
  expect_output $'1 1\n2 0\n3 0\n4 0\n5 0\n6 0\ncustomer 1\ncustomer 2\ncustomer 3\ncustomer 4\ncustomer 5'
  expect_quiet
  [[ -d shop && -z $(ls -A shop) ]]
}
