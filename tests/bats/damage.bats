#!/usr/bin/env bats
# FIELD REPORTS: damage. Files that are not what they should be.

load helper

@test "damage: a counter that is empty or garbage is reported, never taken as 0" {
  in_shell 'sem_init s 5; queue_init q; queue_put q item'
  in_shell '
    for text; do
      printf "%s" "$text" >s/counter
      for command in "sem_wait s" "sem_wait s 5" "sem_trywait s" "sem_post s" "sem_peek s"; do
        rc=0; $command >"$LATCHES/out" 2>"$LATCHES/err" || rc=$?
        mapfile -t said <"$LATCHES/err"
        if (( rc != 3 || ${#said[@]} != 1 )) || [[ -s $LATCHES/out || ${said[0]} != *": ${command%% *}: s/counter: "* ]]; then
          printf "%q: %s: status %s, says: %s\n" "$text" "$command" "$rc" "${said[*]}"
        fi
      done
      printf "%s" "$text" | cmp - s/counter
    done; printf "tried\n"' '' $'\n' x 1x ' 1' $'1 \n' $'1\n2\n' 0x1 01 'a[$(touch X)]' 99999999999999999999 '--1' + -
  expect_output tried
  expect_files q s
  [[ ! -L s/countlock ]]
}

@test "damage: a counter without its newline is read" {
  in_shell 'sem_init s 5; printf 12 >s/counter; sem_peek s; answer sem_trywait s; sem_peek s; sem_post s; sem_peek s'
  expect_output $'12\n0\n11\n12'
}

@test "damage: a counter that is missing is an error" {
  in_shell 'sem_init s 5; rm s/counter; sem_post s'
  expect_status 3
  expect_error '*sem_post: s*'
  in_shell 'sem_wait s 5'
  expect_status 3
}

@test "damage: a queue whose counter is damaged loses nothing" {
  in_shell 'queue_init q; queue_put q one; : >q/sem/counter; answer queue_put q two; answer queue_get q 0'
  expect_output $'3\n3'
  in_shell 'printf "1\n" >q/sem/counter; queue_get q; answer queue_get q 0'
  expect_output $'one\n1'
}

@test "damage: a tail cut inside a line is reported once, all whole items are delivered" {
  in_shell 'queue_init q; queue_put q one two three'
  truncate -s -3 q/data
  in_shell 'while queue_get q 0; do :; done; answer queue_get q 0; queue_put q four; queue_get q 5'
  expect_output $'one\ntwo\n1\nfour'
  expect_error '*queue_get: q*'
}

@test "damage: a zeroed tail is cut off, the items before it stay" {
  in_shell 'queue_init q; for ((i = 0; i < 20; i++)); do queue_put q "item $i"; done'
  head -c 400 /dev/zero >>q/data
  in_shell 'for ((i = 0; i < 20; i++)); do queue_get q 5; done; queue_put q next; queue_get q 5; answer queue_get q 0'
  [[ $output == 'item 0'$'\n'*$'item 19\nnext\n1' && $(wc -l <<<"$output") -eq 22 ]]
  expect_error '*queue_get: q*'
}

@test "damage: a line that is not base64 goes to rejected, the queue goes on" {
  in_shell 'queue_init q; queue_put q one; printf "%s\n" "not base64!" >>q/data; sem_post q/sem; queue_put q two; queue_get q; queue_get q 5; answer queue_get q 0'
  expect_output $'one\ntwo\n1'
  expect_error '*queue_get: q*'
  [[ $(<q/rejected) == 'not base64!' ]]
}

@test "damage: a line that is not base64 and came without a token does not use up an item's" {
  in_shell '
    queue_init q; printf "***\n" >>q/data; queue_put q one; printf "***\n***\n" >>q/data; queue_put q two three four
    answer queue_get q 0; answer queue_get -a list -n 2 q 0; printf "%s\n" "${list[@]}"; queue_get q 0; answer queue_get q 0
    cat q/sem/counter'
  expect_output $'one\n0\n0\ntwo\nthree\nfour\n1\n0'
  [[ $(<q/rejected) == $'***\n***\n***' ]]
}

@test "damage: data that is missing is made again or told, never a hang" {
  in_shell 'queue_init q; rm q/data; answer queue_put q one; queue_get q 5'
  [[ $output == $'0\none' || $output == 3 ]]
}

@test "damage: a put that dies after half a line leaves a queue that works" {
  in_shell 'queue_init q; queue_put q one'
  stop_before pwrite 1
  start_shell putter 'queue_put q two'
  await_stopped putter
  launch=()
  printf 'dHd' >>q/data
  kill -KILL "${pids[putter]}"
  end_of putter
  in_shell 'queue_put q three; queue_get q; queue_get q 5; answer queue_get q 0; cat q/sem/counter'
  expect_output $'one\nthree\n1\n0'
}

@test "damage: looking through a huge zeroed tail of data is ended by a signal" {
  in_shell 'queue_init q; queue_put q item'
  cp q/data good
  truncate -s 4T q/data
  local -i expected
  local code
  while read -r expected code; do
    start_shell looker "$code"
    until_true "$limit" test -L q/mutex
    kill -TERM "${pids[looker]}"
    end_of looker
    (( status == expected )) || fail "$code: $status" || return
  done <<'END'
3 trap 'exit 3' TERM; queue_len q
143 queue_get q 0
END
  cat good >q/data
  in_shell 'queue_get q 0; queue_len q'
  expect_output $'item\n0'
}
