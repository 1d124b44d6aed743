#!/usr/bin/env bats
# FIELD REPORTS: queues. Any bytes, any depth, a command that uses the same queue, workers that die.

load helper

# The bytes of a queue's next item, without the newline that the output adds.
expect_next() {
  in_shell 'queue_get q 5'
  expect_status 0
  { cat "$1"; printf '\n'; } | cmp - "$records/shell.out" || fail "$1 came back different"
}

@test "queues: items that other tools mangle come back byte for byte" {
  # shellcheck disable=SC1003 # a backslash
  in_shell '
    queue_init q
    for item; do queue_put q "$item"; queue_get -v got q; [[ $got == "$item" ]] || printf "different: %q\n" "$item"; done
    queue_put q "$@"; queue_get -a all -n 100 q; for ((i = 0; i < $#; i++)); do n=$((i + 1)); [[ ${all[i]} == "${!n}" ]] || printf "different: %q\n" "${!n}"; done
    printf "%s\n" "${#all[@]}"' \
    '' -n '-e x' -e -- - $'\n' $'\n\n' $'a\n' $'\na' $'trailing\n\n\n' ' ' $'\t' '\n' '\\' '$(touch X)' '*' ä $'\x7f' "'" '"' '#' '%s'
  expect_output 23
  expect_files q
}

@test "queues: bytes that are not UTF-8, in every locale" {
  local locale
  printf '\xff\xfe\x80\xc3(\xf0\x9f' >item
  for locale in C C.UTF-8; do
    LC_ALL=$locale in_shell '[[ -d q ]] || queue_init q; queue_put -f item q; queue_put q "$1"; queue_get -v x q; printf "%s" "$x" | cmp - item && [[ $x == "$1" ]] && printf "same\n"' "$(<item)"
    expect_output same
    expect_next item
  done
}

@test "queues: NUL bytes pass stdin and stdout, and are an error towards a variable" {
  printf 'x\0y' >item
  in_shell 'queue_init q; queue_put -f - q <item; queue_get -v x q 5; printf "%s %s\n" $? "${x-unset}"; queue_get -a x -n 2 q 5; printf "%s\n" $?; queue_len q'
  if [[ $INTERLOCK_MODE != strict ]]; then
    expect_output $'3 unset\n3\n1'
    [[ $errors == *queue_get:*$'\n'*queue_get:* ]]
  fi
  expect_next item
}

@test "queues: an item of 5 MiB" {
  head -c 5242880 /dev/urandom >item
  in_shell 'queue_init q; queue_put -f item q; queue_put q small; queue_len q'
  expect_output 2
  expect_next item
  in_shell 'queue_get q; queue_len q'
  expect_output $'small\n0'
}

@test "queues: an item as long as a command line may be" {
  in_shell 'queue_init q; printf -v item "%1000000s" x; queue_put q "$item"; queue_get -v got q; [[ $got == "$item" ]] && printf "same\n"'
  expect_output same
}

@test "queues: a foreach whose command uses the same queue does not hang" {
  in_shell '
    queue_init q; queue_put q 1 2 3
    again() { queue_get -v item q 0; queue_put q "$1 again"; queue_len q; queue_peek q >/dev/null; }
    queue_foreach q again; while queue_get q 0; do :; done'
  expect_output $'3\n3\n3\n1 again\n2 again\n3 again'
}

@test "queues: a foreach whose command fails ends with 1" {
  in_shell 'queue_init q; queue_put q 1 2 3; answer queue_foreach q test != 2; answer queue_foreach q test != 4; queue_len q'
  expect_output $'1\n0\n3'
}

@test "queues: a foreach whose function fails or exits" {
  # Under set -e the failure of a function ends the script where it happens.
  once_is_enough
  in_shell '
    queue_init q; queue_put q 1 2 3
    stop() { printf "%s\n" "$1"; [[ $1 != 2 ]]; }; answer queue_foreach q stop
    queue_len q
    end() { printf "%s\n" "$1"; exit 7; }; ( queue_foreach q end; printf "not here\n" ); printf "%s\n" $?'
  expect_output $'1\n2\n1\n3\n1\n7'
}

@test "queues: put and get cost the same at depth 10 and deep down" {
  once_is_enough
  limit=200
  in_shell '
    queue_init q
    cost() { local i begin end; clock begin; for ((i = 0; i < 1000; i++)); do queue_put q "item $i"; queue_get -v x q 5; done; clock end; printf "%s\n" "$((end - begin))"; }
    queue_put q 1 2 3 4 5 6 7 8 9 10; cost
    for ((i = 0; i < $1; i += 1000)); do queue_put q {1..1000}; done; queue_len q; cost; queue_len q' "$(figure 50000 200000)"
  local -a number
  mapfile -t number <<<"$output"
  (( number[1] == $(figure 50000 200000) + 10 && number[3] == number[1] ))
  printf '# 1,000 puts and gets: %s ms at depth 10, %s ms at depth %s\n' "${number[0]}" "${number[2]}" "${number[1]}" >&3
  # The same, with room for a busy machine; a cost that grows with depth would be thousands of times more.
  (( number[2] < 3 * number[0] + 500 ))
}

@test "queues: what is consumed does not stay on disk for ever" {
  in_shell '
    queue_init q; printf -v item "%50000s" x
    for ((i = 0; i < 100; i++)); do queue_put q "$item"; done
    for ((i = 0; i < 95; i++)); do queue_get -v x q; done; stat -c %s q/data'
  (( output < 2500000 ))
}

@test "queues: four workers and a thousand jobs end cleanly" {
  in_shell '
    queue_init q
    worker() { local job; while queue_get -v job q 10 && [[ $job != end ]]; do printf "%s\n" "$job" >>"done.$1"; done; }
    for i in 1 2 3 4; do worker "$i" & done
    for ((i = 0; i < 1000; i++)); do queue_put q "job $i"; done
    queue_put q end end end end; wait; answer queue_destroy q'
  expect_output 0
  expect_quiet
  [[ $(cat done.* | sort -u | wc -l) -eq 1000 && $(cat done.* | wc -l) -eq 1000 ]]
}

@test "queues: an item beyond what memory allows is an error, and the shell lives" {
  once_is_enough
  truncate -s 1G item
  in_shell '
    queue_init q; queue_put q small; ulimit -v 600000
    rc=0; queue_put -f item q || rc=$?; printf "%s\n" "$rc"; queue_len q; queue_get q'
  expect_output $'3\n1\nsmall'
  expect_error '*queue_put: *'
  [[ ! -s q/data ]]
}

@test "queues: so is one that comes back bigger than memory allows" {
  once_is_enough
  in_shell 'queue_init q'
  head -c 300M /dev/zero | base64 -w0 >>q/data
  printf '\n' >>q/data
  in_shell 'sem_post q/sem; ulimit -v 200000; queue_get -v x q 0; printf "%s\n" $?; queue_len q; printf "alive\n"'
  [[ $output == $'3\n1\nalive' ]]
}

# stopped_and_killed CODE: for every step of CODE a fresh queue with three items, CODE stopped before that step and
# killed, and what a second shell then gets. Calls `left` with it.
stopped_and_killed() {
  local call
  local -i count stops=0
  for call in symlinkat pwrite unlinkat; do
    for (( count = 1; ; count++ )); do
      rm -rf q
      launch=()
      in_shell 'queue_init q; queue_put q one two three'
      stop_before "$call" "$count"
      start_shell victim "$1"
      until_true "$limit" has_ended_or_stopped "${pids[victim]}"
      ! has_ended "${pids[victim]}" || break
      stops+=1
      kill -KILL "${pids[victim]}"
      end_of victim
      launch=()
      in_shell 'queue_put q last; while queue_get -v item q 0; do printf "%s\n" "$item"; done; queue_len q; cat q/sem/counter'
      left || fail "killed before $call number $count, left:" "$output" "$errors" || return
    done
  done
  (( stops >= 6 )) || fail "only $stops stops"
}

@test "queues: a get killed before any of its steps loses at most what it had" {
  left() {
    [[ $output == $'one\ntwo\nthree\nlast\n0\n0' || $output == $'two\nthree\nlast\n0\n0' ]]
  }
  stopped_and_killed 'queue_get q 0'
}

@test "queues: a put killed before any of its steps puts all or nothing" {
  left() {
    [[ $output == $'one\ntwo\nthree\na\nb\nlast\n0\n0' || $output == $'one\ntwo\nthree\nlast\n0\n0' ]]
  }
  stopped_and_killed 'queue_put q a b'
}

@test "queue_foreach: under set -e, if and || see the failure of a program" {
  in_shell '
    set -e
    queue_init q; queue_put q a b
    queue_foreach q false || printf "seen\n"
    if queue_foreach q test x =; then printf "no\n"; else printf "else\n"; fi
    [[ $- == *e* ]]
    queue_foreach q false
    printf "not reached\n"'
  expect_output $'seen\nelse'
  expect_status 1
}

@test "queues: an item of queue_foreach that does not fit into memory is an error, and the shell lives" {
  in_shell '
    queue_init q; head -c 20000000 /dev/zero | tr "\0" x | queue_put -f - q
    ulimit -v 200000; answer queue_foreach q true; printf "alive\n"'
  expect_output $'3\nalive'
  expect_error '*queue_foreach: *'
}
