#!/usr/bin/env bats
# A file system that is really full, beyond puts and posts (see file_systems.bats): locks, dead holders, deliveries that
# fail, and destroying. An answer at once, nothing lost, nothing left over, and with room again all is as before.

load helper

every_mode=no

# A tmpfs of 64 KiB in a name space of its own. fill leaves no block and COUNT inodes: a lock needs one.
SMALL='
  mount -t tmpfs -o size=64k,nr_inodes=40 none mnt; cd mnt
  fill() {
    local i
    cat /dev/zero >filler 2>/dev/null || :
    for ((i = 0; i < 40; i++)); do ( : >"filler.$i" ) 2>/dev/null || break; done
    for ((; $1 > 0 && i > 0; i--)); do (( i <= $1 )) && rm "filler.$((i - 1))"; done
  }
  make_room() { rm -f filler*; }
  picture() { ls -ARl --time-style=+; od -c s/counter; od -c q/data; } 2>/dev/null'

@test "full disk: nothing new is locked, what is locked can be unlocked" {
  mkdir mnt
  launch=(unshare -m)
  in_shell "$SMALL"'
    mutex_lock m; wmutex_lock w; dirlock_lock d; bakery_lock b
    fill 0; picture >/dev/shm/"before.$$"
    answer mutex_lock m2 5; answer wmutex_lock w2 5; answer dirlock_lock d2 5; answer bakery_lock b 5; answer bakery_lock b2 5
    picture | cmp /dev/shm/"before.$$" - && printf "same\n"; rm /dev/shm/"before.$$"
    answer mutex_trylock m; answer dirlock_trylock d
    answer dirlock_unlock d; fill 0; answer bakery_unlock b; fill 0; answer wmutex_unlock w; fill 0; answer mutex_unlock m
    make_room; ls -A
    answer mutex_lock m; answer wmutex_lock w; answer dirlock_lock d; answer bakery_lock b'
  expect_output $'3\n3\n3\n3\n3\nsame\n1\n1\n0\n0\n0\n0\nb\n0\n0\n0\n0'
  [[ $(wc -l <<<"$errors") -eq 5 && $(grep -c ': No space left on device$' <<<"$errors") -eq 5 ]]
}

@test "full disk: a dead holder's lock is not taken, but can be removed" {
  mkdir mnt
  launch=(unshare -m)
  in_shell "$SMALL"'
    sem_init s 1; queue_init q; queue_put q one
    shell "mutex_lock m; dirlock_lock d; mutex_lock s/countlock; mutex_lock q/mutex; kill -9 \$\$" || :
    fill 0; picture >/dev/shm/"before.$$"
    answer mutex_lock m 5; answer dirlock_lock d 5; answer sem_post s; answer sem_wait s 5; answer queue_put q two; answer queue_get q 5
    picture | cmp /dev/shm/"before.$$" - && printf "same\n"; rm /dev/shm/"before.$$"
    answer mutex_unlock m; fill 0; answer dirlock_unlock d
    make_room
    answer sem_post s; sem_peek s; queue_put q two; queue_get q 0; queue_get q 0; queue_len q; find . | sort'
  expect_output $'3\n3\n3\n3\n3\n3\nsame\n0\n0\n0\n2\none\ntwo\n0\n.\n./q\n./q/data\n./q/sem\n./q/sem/counter\n./q/sem/owner\n./q/sem/waitlock\n./s\n./s/counter\n./s/owner'
  [[ $(grep -c ': No space left on device$' <<<"$errors") -eq 6 ]]
}

@test "full disk: an item that cannot be delivered is in the queue or on stderr" {
  mkdir mnt
  launch=(unshare -m)
  in_shell "$SMALL"'
    queue_init q; queue_put q one two
    fill 2; answer queue_get q 0 2>"$LATCHES/first" >/dev/full || :
    make_room
    answer queue_get q 0 >/dev/full 2>/dev/null || :
    while queue_get q 0; do :; done; queue_len q; find q -name "data?*"'
  expect_status 0
  [[ $output == $'one\ntwo\n0' || ($output == $'two\n0' && $(<"$LATCHES/first") == *one*) ]]
}

@test "full disk: what is destroyed is gone" {
  mkdir mnt
  launch=(unshare -m)
  in_shell "$SMALL"'
    sem_init s 1; queue_init q; queue_put q one
    fill 2; answer queue_destroy q; fill 2; answer sem_destroy s; make_room; ls -A'
  expect_output $'0\n0'
  expect_quiet
}

@test "file size limit: an item that does not fit into the output is back in the queue, and the shell lives" {
  head -c 6000 /dev/zero >out
  in_shell 'queue_init q; queue_put q "$(printf "%04000d" 7)" two; ulimit -Sf 8; rc=0; queue_get q 0 >>out || rc=$?; ulimit -Sf unlimited; printf "%s\n" "$rc"; queue_len q; queue_peek q'
  expect_output $'3\n2\n'"$(printf '%04000d' 7)"
  expect_error '*queue_get: standard output: File too large'
}

@test "file size limit: what is to be put beyond it is refused, and the queue is as before" {
  # The messages must not go to a file.
  in_shell 'queue_init q; queue_put q one
    refused() { ( ulimit -f "$1"; shift; answer "$@" ) 2>&1 | sed "s/.*: File/File/"; }
    refused 8 queue_put q "$(printf "%09000d" 7)"
    refused 0 queue_put q x; refused 0 sem_init s 1; refused 0 sem_post q/sem; refused 0 bakery_lock b
    queue_len q; queue_get q 0; answer queue_get q 0'
  expect_output "$(printf 'File too large\n3\n%.0s' 1 2 3 4 5)"$'\n1\none\n1'
  expect_quiet
}
