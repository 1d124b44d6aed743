#!/usr/bin/env bats
# FIELD REPORTS: users and groups.

load helper

# It becomes other users.
needs_root=yes

@test "users: a lock of one in a sticky directory is busy for root and others, their unlock is refused" {
  make_public
  mkdir -m 1777 shared
  cd shared
  launch=("${as_user[@]}")
  start_shell holder 'mutex_lock m; latch locked; await finish; answer mutex_unlock m'
  await locked
  local -a who
  for who in root other; do
    launch=()
    [[ $who == root ]] || launch=("${as_other[@]}")
    in_shell 'answer mutex_trylock m; answer mutex_lock m 1.2; mutex_unlock m'
    expect_output $'1\n1'
    expect_status 2
    expect_error '*mutex_unlock: m: *'
  done
  latch finish
  end_of holder
  expect_output 0
}

@test "users: so is a lock directory, though others may not look into it" {
  make_public
  mkdir -m 1777 shared
  cd shared
  local mask
  for mask in 077 022; do
    rm -f "$LATCHES"/locked "$LATCHES"/finish
    launch=("${as_user[@]}")
    start_shell holder 'umask "$1"; dirlock_lock d; latch locked; await finish; answer dirlock_unlock d' "$mask"
    await locked
    launch=("${as_other[@]}")
    in_shell 'answer dirlock_trylock d; answer dirlock_lock d 0.1; dirlock_unlock d'
    expect_output $'1\n1'
    expect_status 2
    expect_error '*dirlock_unlock: d: not the owner: locked by *'
    latch finish
    end_of holder
    expect_output 0
    [[ -z $(ls -A) ]] || return
  done
}

@test "users: what another left of a killed call in a sticky directory stops nobody" {
  make_public
  mkdir -m 1777 shared
  cd shared
  launch=("${as_user[@]}")
  in_shell 'umask 077; mkdir .interlock-0; : >.interlock-0/owner; ln -s 1 .interlock'
  launch=("${as_other[@]}")
  in_shell '
    answer dirlock_lock d 1; answer dirlock_unlock d; answer sem_init s 1; answer sem_destroy s
    ( mutex_lock m; kill -KILL "$BASHPID" ) || :; answer mutex_lock m 5; answer mutex_unlock m'
  expect_output $'0\n0\n0\n0\n0\n0'
  [[ $(ls -A) == $'.interlock\n.interlock-0' ]]
  launch=("${as_user[@]}")
  in_shell 'answer dirlock_lock d 1; answer dirlock_unlock d; ( mutex_lock m; kill -KILL "$BASHPID" ) || :; answer mutex_lock m 5; answer mutex_unlock m'
  expect_output $'0\n0\n0\n0'
  [[ -z $(ls -A) ]]
}

@test "users: another's dead lock in a sticky directory is busy or an error, never a hang" {
  make_public
  mkdir -m 1777 shared
  cd shared
  launch=("${as_user[@]}")
  in_shell 'mutex_lock m; kill -KILL "$BASHPID"'
  launch=("${as_other[@]}")
  limit=10
  in_shell 'mutex_lock m 1'
  (( status == 1 || status == 3 ))
  launch=("${as_user[@]}")
  in_shell 'answer mutex_lock m 5'
  expect_output 0
  [[ $(ls -A) == m ]]
}

@test "users: links planted at every name that we create harm no file" {
  make_public
  printf 'precious\n' >victim
  chmod 600 victim
  mkdir -m 777 shared
  cd shared
  local name
  in_shell 'sem_init s; queue_init q; queue_put q one two'
  for name in .interlock s/.interlock q/.interlock q/sem/.interlock q/data.new q/rejected; do
    ln -s "$T/victim" "$name"
  done
  in_shell '
    mutex_lock m; mutex_unlock m; ( mutex_lock m; kill -KILL "$BASHPID" ); mutex_lock m 5; mutex_unlock m
    ( stop() { :; }; mutex_lock s/countlock; kill -KILL "$BASHPID" ); sem_post s 3; sem_wait s
    printf "bad!\n" >>q/data; sem_post q/sem; queue_get q 1; queue_get q 1; queue_get q 0 || :
    queue_put q x; queue_get q >&- || :; queue_get q >/dev/full || :; queue_destroy -f q || :; sem_destroy -f s || :' 2>/dev/null
  [[ $(<"$T/victim") == precious ]]
}

@test "users: a link in the place of counter, data or the semaphore is not followed" {
  printf '5\n' >victim
  in_shell 'sem_init s 1; queue_init q; queue_put q one; queue_init r'
  ln -sf "$T/victim" s/counter
  ln -sf "$T/victim" q/data
  mv r/sem sem
  ln -s "$T/sem" r/sem
  in_shell 'answer sem_post s; answer sem_trywait s; answer queue_put q x; answer queue_get q 0; answer queue_put r x'
  [[ $output != *[!3$'\n']* ]] || fail "$output"
  [[ $(<victim) == 5 && $(<sem/counter) == 0 ]]
}

@test "users: two take turns at a queue of their group" {
  make_public
  mkdir -m 2770 shared
  chgrp 61009 shared
  cd shared
  launch=("${as_user[@]}")
  in_shell 'umask 077; queue_init q; chmod -R g+rwxs q; sem_init s 1; chmod -R g+rwxs s'
  expect_status 0
  local -i i
  for (( i = 0; i < 3; i++ )); do
    launch=("${as_other[@]}")
    in_shell 'answer queue_put q "$1"; answer sem_post s' "turn $i"
    expect_output $'0\n0'
    launch=("${as_user[@]}")
    in_shell 'queue_get q 5; answer queue_put q back; answer sem_wait s 5'
    expect_output "turn $i"$'\n0\n0'
    launch=("${as_other[@]}")
    in_shell 'queue_get q 5; sem_peek s'
    expect_output $'back\n1'
  done
  [[ $(find . -not -type l -printf '%G\n' | sort -u) == 61009 ]]
}

@test "users: objects follow the umask" {
  in_shell 'umask 027; sem_init s; queue_init q; umask 002; sem_init t'
  [[ $(stat -c %a s s/counter q q/data q/sem q/sem/counter t t/counter | tr '\n' ' ') == '750 640 750 640 750 640 775 664 ' ]]
}

@test "users: who may only look gets an error, and a look" {
  make_public
  in_shell 'sem_init s 3; queue_init q; queue_put q item'
  launch=("${as_user[@]}")
  in_shell 'sem_post s'
  expect_status 3
  expect_error '*sem_post: *: Permission denied'
}

@test "users: a directory that may be searched but not read" {
  make_public
  mkdir -m 733 drop
  launch=("${as_user[@]}")
  in_shell 'answer mutex_lock drop/m; answer mutex_trylock drop/m; answer mutex_unlock drop/m; answer mutex_unlock drop/m'
  expect_output $'0\n1\n0\n1'
  [[ -z $(ls -A drop) ]]
}
