# shellcheck shell=bash
# The pure-bash peer: what a script without the plugin does to the same objects, with nothing but coreutils and sed.
# Written from the description of the formats; it keeps the articles' habits, its weak points included, because those
# are what the plugin has to live with:
#
# - mutex: a symbolic link to "$$"; unlocked by rm if the link's text, taken as arithmetic, is "$$"
# - weak mutex: a symbolic link to "$BASHPID"; unlocked by anyone
# - semaphore: waiters take waitlock, decrement under countlock and reopen waitlock while tokens are left; posters
#   increment under countlock and open waitlock *after* they have left countlock
# - queue: a line of base64 for each item; taken by head and sed -i, appended by >>; the post comes after the mutex
# - who must wait tries again every PEER_PAUSE seconds
#
# peer_at STEP is called between any two steps. It does nothing; tests replace it to stop a peer there.

: "${PEER_PAUSE:=1}"

peer_at() {
  :
}

peer_mutex_trylock() {
  ln -s -- "$$" "$1" 2>/dev/null
}

peer_mutex_lock() {
  peer_retry "${2:--1}" peer_mutex_trylock "$1"
}

peer_mutex_unlock() {
  local owner
  owner=$(readlink -- "$1") || return 1
  if (( owner != $$ )); then
    return 2
  fi
  rm -- "$1" 2>/dev/null
}

peer_wmutex_trylock() {
  ln -s -- "$BASHPID" "$1" 2>/dev/null
}

peer_wmutex_lock() {
  peer_retry "${2:--1}" peer_wmutex_trylock "$1"
}

peer_wmutex_unlock() {
  rm -- "$1" 2>/dev/null
}

# peer_retry TIMES COMMAND…: a pause between the tries; TIMES < 0 is for ever.
peer_retry() {
  local -i left=$1
  shift
  until "$@"; do
    if (( left == 0 )); then
      return 1
    fi
    left+=-1
    sleep "$PEER_PAUSE"
  done
}

# peer_sem_init SEM VALUE
peer_sem_init() {
  mkdir -- "$1" 2>/dev/null || return 1
  peer_wmutex_trylock "$1/owner"
  if (( $2 == 0 )); then
    peer_wmutex_trylock "$1/waitlock"
  fi
  printf '%d\n' "$2" >"$1/counter"
}

# peer_sem_add SEM NUMBER: prints the new value.
peer_sem_add() {
  local -i value
  value=$(<"$1/counter")
  peer_at counter-read
  value+=$2
  printf '%d\n' "$value" >"$1/counter"
  printf '%d\n' "$value"
}

# peer_sem_wait SEM [TIMES]
peer_sem_wait() {
  local -i left
  peer_wmutex_lock "$1/waitlock" "${2:--1}" || return 1
  peer_at wait-alone
  peer_mutex_lock "$1/countlock"
  peer_at wait-locked
  left=$(peer_sem_add "$1" -1)
  peer_at wait-counted
  if (( left > 0 )); then
    peer_wmutex_unlock "$1/waitlock"
  fi
  peer_at wait-opened
  peer_mutex_unlock "$1/countlock"
}

# peer_sem_post SEM
peer_sem_post() {
  peer_at post-begins
  peer_mutex_lock "$1/countlock"
  peer_at post-locked
  peer_sem_add "$1" 1 >/dev/null
  peer_at post-counted
  peer_mutex_unlock "$1/countlock"
  peer_at post-unlocked
  peer_wmutex_unlock "$1/waitlock"
  peer_at post-opened
  return 0
}

peer_sem_destroy() {
  [[ -f $1/counter ]] && rm -r -- "$1"
}

peer_queue_init() {
  mkdir -- "$1" 2>/dev/null || return 1
  peer_sem_init "$1/sem" 0
  : >"$1/data"
}

# peer_queue_put QUEUE ITEM
peer_queue_put() {
  local line
  line=$(printf '%s\n' "$2" | base64 -w 0)
  peer_mutex_lock "$1/mutex"
  peer_at put-locked
  printf '%s\n' "$line" >>"$1/data"
  peer_at put-appended
  peer_mutex_unlock "$1/mutex"
  peer_at put-unlocked
  peer_sem_post "$1/sem"
}

# peer_queue_get QUEUE [TIMES]
peer_queue_get() {
  local line
  peer_sem_wait "$1/sem" "${2:--1}" || return 1
  peer_at get-admitted
  peer_mutex_lock "$1/mutex"
  # A consumed prefix is NUL bytes: bash drops them, and says so.
  { line=$(head -n 1 -- "$1/data"); } 2>/dev/null
  peer_at get-read
  sed -i 1d -- "$1/data"
  peer_at get-removed
  peer_mutex_unlock "$1/mutex"
  base64 -d <<<"$line"
}

peer_queue_destroy() {
  peer_sem_destroy "$1/sem" && rm -r -- "$1"
}
