#!/usr/bin/env bats
# Every system call of the real plugin fails once: no false success, the state as before, nothing left over, later calls
# work. The simulated world knows faults of the seam's operations only; here it is the kernel's answer to the shipped library.

load helper

every_mode=no needs_program=strace

# What each system call fails with; the first one only, but for INTERLOCK_DEEP=1. What bash or the C library calls for
# itself as well is not here: close, ppoll, the signals, write.
errnos_of() {
  case $1 in
    openat) printf 'EMFILE EACCES' ;;
    symlinkat | pwrite64) printf 'ENOSPC EIO' ;;
    mkdirat | inotify_add_watch) printf 'ENOSPC' ;;
    renameat2) printf 'EINVAL EIO' ;;
    fcntl | flock) printf 'ENOLCK' ;;
    inotify_init1 | socket | pidfd_open) printf 'EMFILE' ;;
    bind) printf 'EACCES' ;;
    fchmod | fchown) printf 'EPERM' ;;
    *) printf 'EIO' ;;
  esac
}
CALLS=openat,symlinkat,readlinkat,mkdirat,renameat,renameat2,unlinkat,pread64,pwrite64,ftruncate,fcntl,flock,fstatfs,newfstatat,getdents64
CALLS+=,inotify_init1,inotify_add_watch,socket,bind,pidfd_open,fchmod,fchown

# The operation, between two looks at files that show in the trace, and what a shell without faults sees then.
# shellcheck disable=SC2016 # for the shells under test
RUN='eval "$1"; [[ -e /begin ]] || :; rc=0; eval "$2" || rc=$?; [[ -e /end ]] || :; printf "%s " "$rc"; shell "$3"'

# once SETUP OPERATION STATE [PREFIX…]: in a fresh directory, into output, errors.
once() {
  launch=("${@:4}")
  rm -rf -- "$T"
  mkdir "$T"
  cd "$T" || return
  in_shell "$RUN" "$1" "$2" "$3"
}

# The COUNTth call of a NAME, one line each, that the operation makes.
calls_of_operation() {
  awk -F '(' '/"\/begin"/ { on = 1; count[$1]++; next } /"\/end"/ { on = 0 } { count[$1]++ } on { print $1, count[$1] }' "$home/trace"
}

# faults SETUP OPERATION STATE LATER: with each fault of the OPERATION, STATE is as before it if it says so, as after it if
# it says that; and LATER, in another shell, succeeds and leaves an empty directory.
faults() {
  local before after call count errno what
  local -a wrong=() errnos
  local -i visited=0
  once "$1" : "$3"
  before=${output#* }
  once "$1" "$2" "$3" strace -qq -o "$home/trace" -e signal=none -e "trace=$CALLS"
  after=${output#* }
  [[ $output == "0 $after" && $before != "$after" ]] || fail "without faults: $output, before: $before, $errors" || return
  # Each run makes a new trace; this is the one to go by.
  while read -r call count; do
    read -ra errnos <<<"$(errnos_of "$call")"
    for errno in "${errnos[@]:0:$(figure 1 9)}"; do
      once "$1" "$2" "$3" strace -qq -o /dev/null -e "trace=$call" -e "inject=$call:error=$errno:when=$count"
      visited+=1
      what="$2: $errno from $call $count: $output $errors"
      case $output in
        "0 $after") [[ -z $errors ]] || wrong+=("$what") ;;
        # What may not be read is somebody else's.
        "2 $before") [[ $errno == EACCES && $errors != *$'\n'* ]] || wrong+=("$what") ;;
        "3 $before") [[ -n $errors && $errors != *$'\n'* ]] || wrong+=("$what") ;;
        *) wrong+=("$what") ;;
      esac
      launch=()
      in_shell "$4"
      [[ $status == 0 && -z $errors && -z $(ls -A) ]] || wrong+=("$what, and then $status $output $errors $(find . | tr '\n' ' ')")
    done
  done < <(calls_of_operation)
  printf '# %s: %d faults\n' "$2" "$visited" >&3
  (( visited > 1 && ${#wrong[@]} == 0 )) || fail "${wrong[@]}"
}

# Where no mark can be set (a directory that cannot be opened, an unknown file system) a lock has NONCE 0 and lasts until it is
# unlocked.
LATER_MUTEX='[[ $(readlink m) != *,0,* ]] || mutex_unlock -f m; mutex_lock m 3 && mutex_unlock m'
@test "faults: mutex" {
  once_is_enough
  faults '' 'mutex_trylock m' 'answer mutex_trylock m' "$LATER_MUTEX"
  faults 'shell "mutex_lock m"' 'mutex_lock m 1' 'readlink m | grep -c "$PPID$"' "$LATER_MUTEX"
  faults 'mutex_lock m' 'mutex_unlock m' 'answer mutex_trylock m' "$LATER_MUTEX"
}

@test "faults: weak mutex" {
  once_is_enough
  faults '' 'wmutex_trylock m' 'answer wmutex_trylock m' 'wmutex_unlock m || :'
  faults 'wmutex_lock m' 'wmutex_unlock m' 'answer wmutex_trylock m' 'wmutex_unlock m || :'
}

# A waitlock that could not be removed beside tokens is removed by the next one.
LATER_SEM='sem_init s 3 || :; sem_post s && sem_trywait s && sem_destroy -f s'
STATE_SEM='sem_peek s 2>/dev/null && answer sem_trywait s && answer test -L s/waitlock'
@test "faults: semaphore" {
  once_is_enough
  faults '' 'sem_init s 1' "$STATE_SEM" "$LATER_SEM"
  faults '' 'sem_init s' "$STATE_SEM" "$LATER_SEM"
  faults 'sem_init s 0' 'sem_post s' "$STATE_SEM" "$LATER_SEM"
  faults 'sem_init s 1' 'sem_post s 2' "$STATE_SEM" "$LATER_SEM"
  faults 'sem_init s 1' 'sem_trywait s' "$STATE_SEM" "$LATER_SEM"
  faults 'sem_init s 2' 'sem_wait s 1' "$STATE_SEM" "$LATER_SEM"
  faults 'sem_init s 2' 'sem_destroy s' "$STATE_SEM" "$LATER_SEM"
}

LATER_QUEUE='queue_init q || :; queue_put q later && while queue_get -v item q 0; do last=$item; done; [[ $last == later ]] && queue_destroy -f q'
STATE_QUEUE='queue_peek -a items q 2>/dev/null; printf "%s " "${items[@]}"; queue_len q 2>/dev/null'
@test "faults: queue" {
  once_is_enough
  faults '' 'queue_init q' "$STATE_QUEUE" "$LATER_QUEUE"
  faults 'queue_init q' 'queue_put q one two' "$STATE_QUEUE" "$LATER_QUEUE"
  faults 'queue_init q; queue_put q one' 'queue_put q two' "$STATE_QUEUE" "$LATER_QUEUE"
  faults 'queue_init q; queue_put q one' 'queue_get -v item q' "$STATE_QUEUE" "$LATER_QUEUE"
  faults 'queue_init q; queue_put q one two three' 'queue_get -a items -n 2 q' "$STATE_QUEUE" "$LATER_QUEUE"
  faults 'queue_init q; queue_put q one' 'queue_destroy q' "$STATE_QUEUE" "$LATER_QUEUE"
}

LATER_DIRLOCK='[[ ! -d d || $(<d/owner) != *,0,* ]] || dirlock_unlock -f d; dirlock_lock d 3 && dirlock_unlock d'
@test "faults: lock directory" {
  once_is_enough
  faults '' 'dirlock_trylock d' 'answer dirlock_trylock d' "$LATER_DIRLOCK"
  faults 'shell "dirlock_lock d"' 'dirlock_lock d 1' 'head -n 1 d/owner | grep -c "$PPID$"' "$LATER_DIRLOCK"
  faults 'dirlock_lock d' 'dirlock_unlock d' 'answer dirlock_trylock d' "$LATER_DIRLOCK"
}

LATER_BAKERY='rm -f b/*,0,*; bakery_lock b 3 && bakery_unlock b && rmdir b'
@test "faults: bakery" {
  once_is_enough
  faults '' 'bakery_lock b 1' 'answer bakery_trylock b' "$LATER_BAKERY"
  faults 'bakery_lock b' 'bakery_unlock b' 'answer bakery_trylock b' "$LATER_BAKERY"
}

# What only makes a wait shorter may fail silently: the re-check is there.
@test "faults: waiting" {
  once_is_enough
  local calls=newfstatat,inotify_init1,inotify_add_watch,socket,bind,listen,pidfd_open
  CALLS=$calls faults 'sem_init s' '( nap 0.1; sem_post s ) & sem_wait s 10 && : >got' 'answer test -e got' 'rm got; sem_destroy -f s'
  CALLS=$calls faults 'shell "mutex_lock m; nap 0.2; mutex_unlock m" & until [[ -L m ]]; do nap; done' \
    'mutex_lock m 10' 'readlink m | grep -c "$PPID$"' "$LATER_MUTEX"
}
