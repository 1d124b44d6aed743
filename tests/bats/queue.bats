#!/usr/bin/env bats
# queue_init, queue_put, queue_get, queue_peek, queue_len, queue_foreach, queue_destroy.

load helper

@test "queue: first in, first out" {
  in_shell '
    answer queue_init q; answer queue_put q one; answer queue_put q two three; queue_len q
    queue_get q; queue_get q; queue_get q; queue_len q; answer queue_get q 0'
  expect_output $'0\n0\n0\n3\none\ntwo\nthree\n0\n1'
  expect_quiet
}

@test "queue: on disk it is a mutex, a semaphore and a line of base64 for each item" {
  in_shell 'queue_init q; queue_put q one $'"'two\nlines'"''
  [[ $(ls -A q) == $'data\nsem' && $(<q/sem/counter) == 2 ]]
  [[ $(<q/data) == "$(base64 -w0 <<<one)"$'\n'"$(base64 -w0 <<<$'two\nlines')" ]]
}

@test "queue: all that is consumed leaves nothing in data" {
  in_shell 'queue_init q; queue_put q one two; queue_get q; queue_get q'
  [[ -f q/data && ! -s q/data && -L q/sem/waitlock ]]
}

@test "queue: peek and len leave it" {
  in_shell 'queue_init q; queue_put q one two; queue_peek q; queue_peek -v x q; queue_len -v n q; printf "%s %s\n" "$x" "$n"; queue_len q'
  expect_output $'one\none 2\n2'
}

@test "queue: peek at an empty one is an honest no" {
  in_shell 'queue_init q; answer queue_peek q; x=old; answer queue_peek -v x q; printf "%s\n" "${x-unset}"'
  expect_output $'1\n1\nunset'
  expect_quiet
}

@test "queue: into a variable, unset on failure" {
  in_shell '
    queue_init q; queue_put q "$1"; queue_get -v item q; printf "<%s>\n" "$item"
    answer queue_get -v item q 0; printf "%s\n" "${item-unset}"
    f() { local item=1; queue_put q 2; queue_get -v item q; printf "%s\n" "$item"; }; item=outer; f; printf "%s\n" "$item"' $' a\nb\n'
  expect_output $'< a\nb\n>\n1\nunset\n2\nouter'
}

@test "queue: into an array, as many as there are up to MAX" {
  in_shell '
    queue_init q; queue_put q a b c "d e" f
    queue_get -a got -n 2 q; printf "<%s>" "${#got[@]}" "${got[@]}"; printf "\n"
    got=(x x x x x x x); queue_get -a got -n 100 q 5; printf "<%s>" "${#got[@]}" "${got[@]}"; printf "\n"
    answer queue_get -a got -n 3 q 0; printf "%s\n" "${got-unset}"; queue_len q; cat q/sem/counter'
  expect_output $'<2><a><b>\n<3><c><d e><f>\n1\nunset\n0\n0'
  expect_quiet
}

@test "queue: a waiter gets what is put" {
  start_shell waiter 'queue_init q; latch ready; queue_get q 20'
  await ready
  await_asleep waiter
  in_shell 'queue_put q item'
  end_of waiter
  expect_output item
}

@test "queue: several waiters and one put of several items" {
  in_shell 'queue_init q'
  local who
  for who in 1 2 3; do
    start_shell "$who" 'queue_get q 20'
  done
  await_asleep 1 2 3
  in_shell 'queue_put q a b c'
  for who in 1 2 3; do
    end_of "$who"
    printf '%s\n' "$output" >>got
  done
  [[ $(sort got) == $'a\nb\nc' ]]
}

@test "queue: a file and stdin are one item each" {
  printf 'two\nlines\n' >file
  in_shell 'queue_init q; queue_put -f file q; printf "from stdin" | queue_put -f - q; queue_put -f /dev/null q; queue_len q; queue_get q; queue_get q; queue_get q'
  expect_output $'3\ntwo\nlines\n\nfrom stdin'
}

@test "queue: a file that cannot be read puts nothing" {
  in_shell 'queue_init q; answer queue_put -f missing q; answer queue_put -f . q; queue_len q'
  expect_output $'3\n3\n0'
}

@test "queue: what peers put ours get, what ours put peers get" {
  in_shell '
    queue_init q; peer_put() { peer "for i; do peer_queue_put q \"\$i\"; done" "$@"; }
    peer_put "from a peer" $'"'two\nlines'"'; queue_get q; queue_get q
    queue_put q one $'"'a\nb'"' three; queue_get q
    peer "peer_queue_get q; peer_queue_get q; peer_queue_get q 0; printf \"%s\n\" \$?"
    queue_len q; peer_put last; queue_get q; answer queue_get q 0'
  expect_output $'from a peer\ntwo\nlines\none\na\nb\nthree\n1\n0\nlast\n1'
  expect_quiet
}

@test "queue: a peer's queue, and its lines without the newline at the item's end" {
  in_peer 'peer_queue_init q; peer_queue_put q item'
  printf '%s\n' "$(printf 'no newline' | base64 -w0)" >>q/data
  in_shell 'sem_post q/sem; queue_get q; queue_get q; answer queue_destroy -f q'
  expect_output $'item\nno newline\n0'
}

@test "queue: foreach shows every item and leaves them" {
  in_shell '
    queue_init q; queue_put q "a b" "*" "" "\$(touch X)"
    show() { printf "%s<%s>" "$@"; printf "\n"; }
    queue_foreach q show more; queue_len q'
  expect_output $'a b<more>\n*<more>\n<more>\n$(touch X)<more>\n4'
  expect_files q
}

@test "queue: destroyed only by its owner, or by force" {
  in_shell 'queue_init q; queue_put q item'
  in_shell 'queue_destroy q'
  expect_status 2
  expect_error '*queue_destroy: q*: not the owner*'
  in_shell 'queue_len q; answer queue_destroy -f q'
  expect_output $'1\n0'
  in_shell 'queue_init q; queue_put q item; answer queue_destroy q'
  expect_output 0
  expect_files
}

@test "queue: destroy leaves a directory with something else in it" {
  in_shell 'queue_init q; queue_put q item; : >q/mine; answer queue_destroy q; rm q/mine; : >q/sem/mine; answer queue_destroy -f q; queue_get q'
  expect_output $'3\n3\nitem'
  [[ -f q/sem/mine ]]
}

@test "queue: destroy takes what sed and we may have left" {
  in_shell 'queue_init q; : >q/sedAbC123; : >q/data.new; : >q/rejected; answer queue_destroy q'
  expect_output 0
  expect_files
}

@test "queue: destroyed while one waits ends that wait with an error" {
  in_shell 'queue_init q'
  start_shell waiter 'queue_get q 20'
  await_asleep waiter
  in_shell 'queue_destroy -f q'
  end_of waiter
  expect_status 3
  expect_error '*queue_get: q*'
  expect_files
}

@test "queue: an item whose delivery fails goes back to the head" {
  in_shell '
    queue_init q; queue_put q one two
    rc=0; queue_get q >&- 2>/dev/null || rc=$?; printf "%s\n" "$rc"; queue_len q
    rc=0; queue_get q >/dev/full 2>/dev/null || rc=$?; printf "%s\n" "$rc"; queue_len q
    readonly fixed; answer queue_get -v fixed q 2>/dev/null
    queue_get q; queue_get q; queue_len q'
  expect_output $'3\n2\n3\n2\n2\none\ntwo\n0'
  [[ $(<q/sem/counter) == 0 ]]
}

@test "queue: an item goes back when nobody reads the pipe, and the shell lives" {
  in_shell '
    queue_init q; queue_put q one two
    mkfifo pipe; exec 7<>pipe 8>pipe 7<&-
    rc=0; queue_get q >&8 2>errors || rc=$?
    printf "%s\n" "$rc"; queue_get q; queue_get q'
  expect_output $'3\none\ntwo'
  [[ $(<errors) == *queue_get:* ]]
}

@test "queue: an item goes back when a trap ends the script in the middle of its delivery" {
  mkfifo pipe
  in_shell 'queue_init q; queue_put q "$(printf %0100000d 7)"'
  local way
  for way in 'exit 3' 'set -e; false' 'set -u; : $nothing_here' 'return 3'; do
    printf '. "$INTERLOCK_PRELUDE"\n%s\n' "trap '$way' USR1; get() { queue_get q >pipe; }; get; exit" >script
    exec 8<>pipe
    start script "$INTERLOCK_BASH" script
    until_true 10 has_begun pipe || fail "$way: nothing came"
    kill -USR1 "${pids[script]}"
    end_of script
    exec 8<&-
    (( status > 0 ))
    in_shell 'queue_len q; rm pipe; mkfifo pipe'
    expect_output 1
  done
}

# Is there something in the pipe that we have open as 8?
has_begun() {
  read -rt 0 -u 8
}

@test "queue: an item that a trap's change of the variable refuses goes back" {
  in_shell 'queue_init q'
  start_shell waiter 'trap "readonly item; queue_put q kept" USR1; queue_get -v item q 20 || printf "%s\n" $?; queue_len q'
  await_asleep waiter
  kill -USR1 "${pids[waiter]}"
  end_of waiter
  [[ $output == [23]$'\n1' ]] || fail "$output"
  in_shell 'queue_get q'
  expect_output kept
}

@test "queue: while a peer holds the mutex a single try is an honest no, and nothing is lost" {
  in_shell 'queue_init q; queue_put q item'
  ln -s 1 q/mutex
  in_shell 'answer queue_get q 0; answer queue_get -v x q 0.1'
  expect_output $'1\n1'
  rm q/mutex
  in_shell 'queue_get q 0; queue_len q'
  expect_output $'item\n0'
}

@test "queue: an item without a token is posted by a waiter after a while" {
  in_shell 'queue_init q'
  base64 -w0 <<<orphan >>q/data
  printf '\n' >>q/data
  in_shell 'queue_get q 15; queue_len q; cat q/sem/counter'
  expect_output $'orphan\n0\n0'
}

@test "queue: a token without an item is dropped" {
  in_shell 'queue_init q; sem_post q/sem; answer queue_get q 0; queue_put q one; queue_get q 5; answer queue_get q 0; cat q/sem/counter'
  expect_output $'1\none\n1\n0'
}
