#!/usr/bin/env bats
# Builtins and the pure-bash peer as lockers, posters, waiters, producers and consumers of the same objects; and what is
# left when some of them are killed.

load helper

setup_file() {
  export PEER_PAUSE=0.01
}

# A round: 12 waiters, 8 posts. When 8 have passed, the count must be exact; 4 more posts let the rest pass, and then
# nothing may be left. One waiter too many in the first part would leave a token at the end, one too few a waiter.
# post N is the poster number N.
ROUNDS='
passed() { local -a all; mapfile -t all <passed; (( ${#all[@]} == $1 )); }
until_passed() { local -i end=SECONDS+30; until passed "$1"; do nap 0.001; if (( SECONDS > end )); then printf "only few passed\n"; return 1; fi; done; }
round() {
  local i
  local -a posters=()
  : >passed
  for ((i = 0; i < 12; i++)); do ( sem_wait s 60 && printf "x\n" >>passed ) & done
  for ((i = 0; i < 8; i++)); do post "$i" & posters+=("$!"); done
  wait "${posters[@]}"
  until_passed 8
  sem_trywait s && { printf "a ninth passed\n"; return 1; }
  passed 8 || { printf "not 8 passed\n"; return 1; }
  sem_post s 4
  wait
  passed 12 && (( $(sem_peek s) == 0 )) || { printf "passed %s, left %s\n" "$(wc -l <passed)" "$(sem_peek s)"; return 1; }
}
rounds() { local i; sem_init s; for ((i = 0; i < $1; i++)); do round || return; done; printf "done\n"; }'

@test "mixed: 8 posts at once let exactly 8 of 12 waiters pass" {
  once_is_enough
  limit=300
  in_shell "$ROUNDS"'; post() { sem_post s; }; rounds "$1"' "$(figure 200 2000)"
  expect_output 'done'
  expect_quiet
}

@test "mixed: the same with the peer as poster" {
  once_is_enough
  limit=300
  in_shell "$ROUNDS"'; . "$INTERLOCK_PEER"; post() { peer_sem_post s; }; rounds "$1"' "$(figure 200 1000)"
  expect_output 'done'
  expect_quiet
}

@test "mixed: the same with half of the posters peers" {
  once_is_enough
  limit=300
  in_shell "$ROUNDS"'; . "$INTERLOCK_PEER"; post() { if (( $1 % 2 )); then peer_sem_post s; else sem_post s; fi; }; rounds "$1"' "$(figure 60 200)"
  expect_output 'done'
  expect_quiet
}

# start_stopping WHO STEP CODE: a peer that has stopped at this one of its steps, until the latch `go`.
start_stopping() {
  start_peer "$1" '
    step=$1
    peer_at() { if [[ $1 == "$step" ]]; then : >"$LATCHES/stopped"; until [[ -e $LATCHES/go ]]; do read -rt 0.005 <>"$LATCHES/.nap"; done; fi; }
    '"$3" "$2"
  await stopped
}

# The peer STOPS at one of its steps, seven others post meanwhile.
@test "mixed: the peer as poster stopped by hand at each of its steps" {
  local step
  for step in post-begins post-locked counter-read post-counted post-unlocked post-opened; do
    rm -rf s "$LATCHES"/{stopped,go}
    in_shell 'sem_init s'
    start_stopping poster "$step" 'peer_sem_post s'
    start_shell rest '
      : >passed; posters=()
      passed() { local -a all; mapfile -t all <passed; (( ${#all[@]} == $1 )); }
      for ((i = 0; i < 12; i++)); do ( sem_wait s 60 && printf "x\n" >>passed ) & done
      for ((i = 0; i < 7; i++)); do sem_post s & posters+=("$!"); done
      if [[ $1 == post-locked || $1 == counter-read || $1 == post-counted ]]; then
        nap 0.3; passed 0 && printf "closed\n"
      else
        wait "${posters[@]}"; until passed 7 || passed 8; do nap; done; printf "closed\n"
      fi
      latch go
      until passed 8; do nap; done
      await over; if sem_trywait s; then printf "a ninth passed\n"; fi
      nap 0.05; passed 8 && printf "eight\n"
      sem_post s 4; wait; passed 12 && sem_peek s' "$step"
    end_of poster
    expect_status 0
    latch over
    end_of rest
    rm "$LATCHES/over"
    [[ $output == $'closed\neight\n0' ]] || fail "$step:" "$output" "$errors" || return
  done
}

@test "mixed: a peer's late last step after eight have passed lets no ninth pass" {
  in_shell 'sem_init s'
  start_stopping poster post-unlocked 'peer_sem_post s'
  in_shell 'sem_post s; answer sem_trywait s; answer sem_trywait s; answer sem_trywait s; sem_peek s'
  expect_output $'0\n0\n1\n0'
  latch go
  end_of poster
  [[ ! -L s/waitlock ]]
  in_shell 'answer sem_trywait s; answer sem_wait s 0.1; sem_peek s; sem_post s; answer sem_wait s 5; answer sem_trywait s; sem_peek s'
  expect_output $'1\n1\n0\n0\n1\n0'
}

@test "mixed: the token that a peer's waiter has claimed is not taken from it" {
  in_shell 'sem_init s 3'
  start_stopping waiter wait-alone 'peer_sem_wait s'
  in_shell 'answer sem_trywait s; answer sem_trywait s; answer sem_trywait s; answer sem_wait s 0.1; sem_peek s'
  expect_output $'0\n0\n1\n1\n1'
  latch go
  end_of waiter
  expect_status 0
  in_shell 'sem_peek s; answer sem_trywait s; sem_post s; answer sem_wait s 5'
  expect_output $'0\n1\n0'
}

@test "mixed: a peer as waiter stopped at each of its steps, ours beside it" {
  local step
  for step in wait-alone wait-locked counter-read wait-counted wait-opened; do
    rm -rf s "$LATCHES"/{stopped,go,over}
    in_shell 'sem_init s 3'
    start_stopping waiter "$step" 'peer_sem_wait s'
    start_shell ours 'for i in 1 2; do ( sem_wait s 60; printf "x\n" >>passed ) & done; wait; await over; answer sem_trywait s; sem_peek s'
    latch go
    end_of waiter
    expect_status 0
    latch over
    end_of ours
    [[ $output == $'1\n0' && $(wc -l <passed) -eq 2 ]] || fail "$step:" "$output" || return
    rm passed
  done
}

@test "mixed: lockers of both kinds do not overlap" {
  limit=120
  in_shell '
    printf "0\n" >counter
    ours() { local n i; for ((i = 0; i < 100; i++)); do mutex_lock m 60 || exit; read -r n <counter; printf "%s\n" "$((n + 1))" >counter; mutex_unlock m; done; }
    theirs='"'"'for ((i = 0; i < 20; i++)); do peer_mutex_lock m; read -r n <counter; printf "%s\n" "$((n + 1))" >counter; peer_mutex_unlock m; done'"'"'
    ours & ours & peer "$theirs" & peer "$theirs" & wait; cat counter'
  expect_output 240
}

# The producers write "NAME NUMBER"; end is an item for each consumer.
PRODUCE='for ((i = 1; i <= $2; i++)); do queue_put q "$1 $i"; done'
CONSUME='while queue_get -v item q 60 && [[ $item != end ]]; do printf "%s\n" "$item"; done >"got.$1"'
PEER_PRODUCE='for ((i = 1; i <= $2; i++)); do peer_queue_put q "$1 $i"; done'
# A peer that is admitted once too often by its own kind reads an empty line.
PEER_CONSUME='while item=$(peer_queue_get q) && [[ $item != end ]]; do if [[ -n $item ]]; then printf "%s\n" "$item"; fi; done >"got.$1"'

# expect_all NAME COUNT…: the consumers got each producer's items, once, and each of them in the producer's order.
expect_all() {
  local file
  while (( $# > 0 )); do
    [[ $(cat got.* | grep -c "^$1 ") -eq $2 ]] || fail "of $1's $2 items came $(cat got.* | grep -c "^$1 ")" || return
    [[ $(cat got.* | grep "^$1 " | sort -u | wc -l) -eq $2 ]] || fail "an item of $1 came twice" || return
    for file in got.*; do
      awk -v name="$1" '$1 == name { if ($2 <= last) exit 1; last = $2 }' "$file" || fail "$1's order is lost in $file" || return
    done
    shift 2
  done
  [[ $(cat got.* | grep -vcE '^[a-z]+ [0-9]+$') -eq 0 ]] || fail "a damaged item" || return
}

@test "mixed: 2 producers, 4 consumers, 20,000 items: each comes once, in order" {
  once_is_enough
  limit=300
  in_shell 'queue_init q'
  local who
  for who in a b c d; do
    start_shell "consumer.$who" "$CONSUME" "$who"
  done
  start_shell producer.one "$PRODUCE" one 10000
  start_shell producer.two "$PRODUCE" two 10000
  end_of producer.one
  end_of producer.two
  in_shell 'queue_put q end end end end'
  for who in a b c d; do
    end_of "consumer.$who"
    expect_status 0
    expect_quiet
  done
  expect_all one 10000 two 10000
  in_shell 'queue_len q; cat q/sem/counter; answer queue_get q 0'
  expect_output $'0\n0\n1'
}

@test "mixed: the same with half of them peers" {
  once_is_enough
  limit=300
  local who peers
  peers=$(figure 300 2000)
  in_shell 'queue_init q'
  start_shell consumer.a "$CONSUME" a
  start_shell consumer.b "$CONSUME" b
  start_peer consumer.c "$PEER_CONSUME" c
  start_peer consumer.d "$PEER_CONSUME" d
  start_shell producer.one "$PRODUCE" one 19700
  start_peer producer.two "$PEER_PRODUCE" two "$peers"
  end_of producer.one
  expect_status 0
  expect_quiet
  end_of producer.two
  expect_status 0
  in_shell 'queue_put q end end end end'
  for who in a b c d; do
    end_of "consumer.$who"
    expect_status 0
  done
  expect_all one 19700 two "$peers"
  in_shell 'queue_len q; answer queue_get q 0'
  expect_output $'0\n1'
}

@test "mixed: 25 rounds of killing a producer and a consumer lose at most what the consumer had" {
  once_is_enough
  limit=300
  local -i round lost
  for (( round = 0; round < $(figure 25 250); round++ )); do
    in_shell 'queue_init q'
    start_shell producer 'for ((i = 1; ; i++)); do queue_put q "one $i"; printf "%s\n" "$i" >put; done'
    start_shell consumer 'while queue_get -v item q 60; do printf "%s\n" "$item"; done >got.killed'
    until_true "$limit" test -s got.killed
    # The moment is what is tried here.
    nap "0.0$(( RANDOM % 40 + 10 ))"
    if (( RANDOM % 2 )); then
      kill -KILL "${pids[producer]}"
      nap "0.00$(( RANDOM % 10 ))"
      kill -KILL "${pids[consumer]}"
    else
      kill -KILL "${pids[consumer]}"
      nap "0.00$(( RANDOM % 10 ))"
      kill -KILL "${pids[producer]}"
    fi
    end_of producer
    end_of consumer
    # One get repairs what was left half done; then length and count agree.
    in_shell '
      queue_put q "two 1"; queue_len -v n q; (( n == $(cat q/sem/counter) )) || printf "length %s, count %s\n" "$n" "$(cat q/sem/counter)" >&2
      while queue_get q 0; do :; done >got.rest; queue_len q; cat q/sem/counter'
    [[ $output == $'0\n0' ]] || fail "round $round:" "$output" || return
    [[ -z $errors || $errors == *queue_put:*data* ]] || fail "round $round:" "$errors" || return
    local -i last
    last=$(cat got.* | sed -n 's/^one //p' | sort -n | tail -n 1)
    lost=$(( last - $(cat got.* | grep -c '^one ') ))
    (( lost == 0 || lost == 1 )) || fail "round $round: $lost lost" || return
    (( last >= $(<put) - 1 )) || fail "round $round: put $(<put), last got $last" || return
    [[ $(cat got.* | sort | uniq -d | wc -l) -eq 0 ]] || fail "round $round: an item came twice" || return
    [[ $(cat got.* | grep -vcE '^(one|two) [0-9]+$') -eq 0 ]] || fail "round $round: a damaged item" || return
    rm -r q got.* put
  done
}
