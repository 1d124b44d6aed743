#!/usr/bin/env bats
# What a script may have done to its process and its directory before it calls us.

load helper

@test "surroundings: closed standard descriptors" {
  in_shell '
    exec 5>log 0<&- 1>&- 2>&-
    mutex_lock m; printf "%s " $? >&5; mutex_trylock m || printf "%s " $? >&5; mutex_unlock m; printf "%s " $? >&5
    sem_init s 1; sem_wait s; printf "%s " $? >&5; sem_wait s 0.05 || printf "%s " $? >&5
    queue_init q; queue_put q item; queue_get -v x q; printf "%s " "$x" >&5
    queue_put -f - q || printf "%s " $? >&5; queue_put q item; queue_get q || printf "%s " $? >&5; queue_len -v n q; printf "%s\n" "$n" >&5'
  [[ $(<log) == '0 1 0 0 1 item 3 3 1' ]] || fail "$(<log)"
}

@test "surroundings: a current directory that was removed" {
  in_shell '
    mkdir gone; cd gone; rmdir ../gone
    for i in "mutex_lock m 5" "mutex_trylock m" "sem_init s" "sem_wait s 5" "queue_init q" "queue_put q x"; do answer $i; done'
  expect_output $'3\n3\n3\n3\n3\n3'
  [[ $(wc -l <<<"$errors") -eq 6 ]]
}

@test "surroundings: the directory of a lock moves while it is waited for" {
  mkdir d
  ln -s 1 d/m
  start_shell waiter 'mutex_lock d/m 20'
  await_asleep waiter
  mv d e
  end_of waiter
  expect_status 3
  expect_error '*mutex_lock: d/m: No such file or directory'
}

@test "surroundings: another file takes the place of a lock that is waited for" {
  ln -s 1 m
  start_shell waiter 'mutex_lock m 20'
  await_asleep waiter
  : >n
  mv n m
  end_of waiter
  expect_status 3
  expect_error '*mutex_lock: m: not a lock*'
}

@test "surroundings: a semaphore made anew while it is waited for" {
  in_shell 'sem_init s'
  start_shell waiter 'sem_wait s 20; sem_peek s'
  await_asleep waiter
  in_shell 'sem_init t 2'
  mv s old
  mv t s
  end_of waiter
  expect_status 0
  expect_output 1
}

@test "surroundings: a script that becomes another by exec keeps its lock and may unlock it" {
  in_shell '
    mutex_lock m
    exec "$BASH" -c ". \"\$INTERLOCK_PRELUDE\"; shell \"answer mutex_trylock m\"; answer mutex_unlock m; shell \"answer mutex_trylock m\""'
  expect_output $'1\n0\n0'
}

@test "surroundings: a program that closes all descriptors lives on with the lock" {
  start_shell holder '
    mutex_lock m; latch locked
    exec bash -c "for fd in /proc/\$\$/fd/*; do fd=\${fd##*/}; if (( fd > 2 )); then eval \"exec \$fd>&-\"; fi; done; : >\"\$LATCHES/closed\"; exec sleep 300"'
  await closed
  in_shell 'answer mutex_trylock m; answer mutex_lock m 1.2'
  expect_output $'1\n1'
  kill "${pids[holder]}"
  end_of holder
  in_shell 'answer mutex_lock m 5'
  expect_output 0
}

@test "surroundings: a restricted shell goes on using them" {
  in_shell 'set -r; answer mutex_lock m; answer mutex_unlock m; sem_init s 1; answer sem_wait s; queue_init q; queue_put q x; queue_get q'
  expect_output $'0\n0\n0\nx'
}

@test "surroundings: options and IFS of the script do not matter" {
  in_shell '
    set -f -o noclobber -o pipefail; shopt -s nullglob failglob 2>/dev/null; IFS=$1; CDPATH=/; umask 077
    mutex_lock "./a b"; mutex_unlock "./a b"; queue_init q; queue_put q "a b"; queue_put q c; queue_get -v x q; queue_get q; printf "%s\n" "$x"' $' ab\n1'
  expect_output $'c\na b'
  expect_quiet
}

@test "surroundings: in a chroot without /proc locks exclude, and nothing is robbed" {
  mkdir root
  in_namespace -m
  # Without the mounts inside: its /proc is an empty directory.
  in_shell '
    mount --bind / root; mount --bind "$T" root/mnt
    chroot root "$INTERLOCK_BASH" -c "$1" shell' '
    cd /mnt; . "$INTERLOCK_PRELUDE"; [[ ! -e /proc/self ]]
    mutex_lock m; ( mutex_trylock m || printf "%s\n" $? ); shell "answer mutex_trylock m; answer mutex_unlock m" 2>/dev/null
    answer mutex_unlock m; sem_init s 1; answer sem_wait s; queue_init q; queue_put q x; queue_get q'
  expect_output $'1\n1\n2\n0\n0\nx'
}

@test "surroundings: in a chroot that shares the directory" {
  mkdir root
  in_namespace -m
  in_shell '
    mount --bind / root; mount --bind "$T" root/mnt
    mutex_lock m; chroot root "$INTERLOCK_BASH" -c "cd /mnt; . \"\$INTERLOCK_PRELUDE\"; answer mutex_trylock m; answer mutex_lock m 0.1; mutex_lock n; kill -KILL \$\$" 2>/dev/null || :
    answer mutex_lock n 5; answer mutex_unlock m'
  expect_output $'1\n1\n0\n0'
}

@test "surroundings: no more watches for this user" {
  in_namespace -Ur
  start_shell holder 'mutex_lock m; latch locked; await finish; mutex_unlock m'
  await locked
  start_shell waiter 'printf "0\n" >/proc/sys/user/max_inotify_watches; latch waits; answer mutex_lock m 10; answer mutex_lock m 0.1'
  await waits
  latch finish
  end_of waiter
  expect_output $'0\n1'
  expect_quiet
}

@test "surroundings: no more descriptors" {
  in_shell '
    sem_init s 1; queue_init q; ulimit -Sn 3
    for i in "mutex_lock m 2" "sem_wait s 2" "queue_put q x" "queue_get q 2"; do answer $i; done
    ulimit -Sn 100
    answer mutex_trylock m; sem_peek s; queue_len q'
  expect_output $'3\n3\n3\n3\n0\n1\n0'
  [[ $(grep -c 'Too many open files$' <<<"$errors") -eq 4 ]]
}

@test "surroundings: more locks at once than descriptors" {
  in_shell '
    ulimit -Sn 200
    for ((i = 0; i < 250; i++)); do mutex_lock "m$i" || break; done
    answer mutex_lock other; printf "%s\n" "$((i > 90 && i < 200))"
    ulimit -Sn 400
    shell "answer mutex_trylock m0; answer mutex_trylock m$((i - 1))"
    for ((j = 0; j < i; j++)); do mutex_unlock "m$j"; done; answer mutex_lock other; mutex_unlock other'
  expect_output $'3\n1\n1\n1\n0'
  [[ $(grep -c ': Too many open files$' <<<"$errors") -eq 2 && $(wc -l <<<"$errors") -eq 2 ]]
  expect_files
}

@test "surroundings: a shell variable for every kind of result" {
  in_shell '
    sem_init s 7; queue_init q; queue_put q a b c d e f
    array=(x y); queue_get -v array q; printf "%s/%s " "${array[@]}"
    declare -n ref=target; queue_get -v ref q; printf "%s " "$target"
    export exported=1; queue_get -v exported q; printf "%s " "$(printenv exported)"
    f() { queue_get -v outer q; local inner; queue_get -v inner q; printf "%s " "$inner"; }; outer=old; inner=kept; f; printf "%s %s " "$outer" "$inner"
    f() { local -a items=(1 2 3); queue_get -a items -n 9 q; printf "%s " "${#items[@]}" "${items[@]}"; }; items=(outer); f; printf "%s " "${items[@]}"
    sem_peek -v array[0] s 2>/dev/null || printf "%s\n" $?'
  expect_output 'a/y b c e d kept 1 f outer 2'
}
