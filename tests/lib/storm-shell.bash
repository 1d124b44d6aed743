# shellcheck shell=bash
# One shell of tests/storm: storm-shell.bash DIRECTORY RECORDS LIFE SEED [peer gives|peer takes|feed COUNT|close PEERS]
#
# Works on the objects in DIRECTORY until RECORDS/over exists, and writes its history to RECORDS/LIFE.log, a line for
# each event: MICROSECONDS LIFE EVENT …. What is between two events of one operation happened between their stamps:
#
#   begin KEY COMMAND…           before an operation; of queue_put only the names of the items, of queue_get
#                                "queue_get q MOST LIMIT"
#   end KEY STATUS [RESULT…]     after it. A shell that died leaves a begin without an end
#   start LOCK KEY, leave KEY    both inside the lock
#   died                         the last moment at which the shell was certainly there
#   gone                         the first one at which it certainly was not, if it was killed
#   bad TEXT                     what the shell itself can see to be wrong

set -u
cd -- "$1" || exit 1
records=$2 life=$3 RANDOM=$4 LC_ALL=C

# shellcheck disable=SC2086 # a list of names
enable -f "$INTERLOCK_LIB" ${INTERLOCK_NAMES:?} || exit 1
exec {log}>>"$records/$life.log" 2>>"$records/$life.errors" {quiet}<>"$records/quiet"
declare -i operations=0 items=0

mark() {
  printf '%s %s %s\n' "${EPOCHREALTIME/./}" "$life" "$*" >&"$log"
}

nap() {
  read -rt "$1" -u "$quiet" || :
}

# Up to $1 milliseconds, often none at all.
short_nap() {
  (( RANDOM % 3 )) || return 0
  printf -v pause '0.%03d' "$(( RANDOM % ($1 + 1) ))"
  nap "$pause"
}

operate() {
  local key=$BASHPID.$((++operations)) status
  mark "begin $key $*"
  "$@"
  status=$?
  mark "end $key $status"
  return "$status"
}

# Sets `limit`: none, one try, or up to 0.3 s.
choose_limit() {
  case $((RANDOM % 5)) in
    0) limit=() ;;
    1) limit=(0) ;;
    *) printf -v limit '0.%03d' "$((RANDOM % 300))" && limit=("$limit") ;;
  esac
}

# LOCK VERBS [OPTION]: a section, now and then left by a subshell.
use_lock() {
  local lock=$1 verbs=$2 key
  local -a option=(${3+"$3"}) limit
  (( RANDOM % 3 )) || option=()
  choose_limit
  if (( RANDOM % 6 == 0 )); then
    operate "${verbs}_trylock" "${option[@]}" "$lock" || return 0
  else
    operate "${verbs}_lock" "${option[@]}" "$lock" "${limit[@]}" || return 0
  fi
  key=$BASHPID.$operations
  if (( RANDOM % 8 == 0 )); then
    ( stay_inside && operate "${verbs}_unlock" "$lock" )
  else
    stay_inside && operate "${verbs}_unlock" "$lock"
  fi
}

stay_inside() {
  mark "start $lock $key"
  short_nap 4
  mark "leave $key"
}

# An item is its name, the length of its padding, and that many x.
put() {
  local key=$BASHPID.$((++operations)) item padding status
  local -a names=() bytes=()
  local -i size count=$(( RANDOM % 3 ? 1 : 1 + RANDOM % 4 ))
  while (( count-- > 0 )); do
    size=$(( RANDOM % 8 == 0 ? RANDOM % 9000 : RANDOM % 30 ))
    printf -v padding '%*s' "$size" ''
    item=i$life.$((++items))
    names+=("$item")
    bytes+=("$item:$size:${padding// /x}")
  done
  mark "begin $key queue_put q ${names[*]}"
  queue_put q "${bytes[@]}"
  status=$?
  mark "end $key $status"
}

# get [LIMIT]: into `got`
get() {
  local key=$BASHPID.$((++operations)) status item padding size
  local -a names=()
  local -i most=$(( RANDOM % 3 ? 1 : 1 + RANDOM % 4 ))
  got=()
  mark "begin $key queue_get q $most ${1--}"
  queue_get -a got -n "$most" q "$@"
  status=$?
  for item in "${got[@]}"; do
    padding=${item##*:} size=${item#*:} size=${size%%:*}
    [[ ${#padding} == "$size" && -z ${padding//x/} && $item == i+([0-9]).+([0-9]):* ]] || mark "bad item of ${#item} bytes: ${item:0:60}"
    names+=("${item%%:*}")
  done
  mark "end $key $status ${names[*]}"
  return "$status"
}

storm() {
  local -a limit
  # The traps run in the middle of waits, and use the objects that are waited for.
  trap 'mark died' EXIT
  trap 'exit 0' TERM
  trap 'operate sem_post s' USR1
  while [[ ! -e $records/over ]]; do
    choose_limit
    case $((RANDOM % 16)) in
      0|1|2) use_lock m mutex -c ;;
      3|4) use_lock d dirlock -c ;;
      5|6) use_lock b bakery ;;
      7) operate wmutex_lock w "${limit[0]-0.1}" ;;
      8) operate wmutex_unlock w ;;
      9|10) operate sem_wait s "${limit[@]}" ;;
      11) operate sem_post s "$((1 + RANDOM % 2))" ;;
      12|13) get "${limit[@]}" ;;
      14) put ;;
      15) operate sem_trywait s; operate queue_len -v length q ;;
    esac
    short_nap 4
  done
  look_for_descriptors
}

# A script without the plugin. It only gives tokens and items, or only takes them: beside each other such scripts admit one
# too many, which is their own affair.
peer() {
  local -r habit=$1
  local key item got
  PEER_PAUSE=0.01
  # shellcheck source=tests/peer/peer.bash
  . "$INTERLOCK_PEER"
  choose_limit() { limit=("$((RANDOM % 9))"); }
  while [[ ! -e $records/over ]]; do
    case $((RANDOM % 4)) in
      0) use_lock m peer_mutex ;;
      1) use_lock d peer_dirlock ;;
      2) if [[ $habit == gives ]]; then operate peer_sem_post s; else operate peer_sem_wait s 5; fi ;;
      3)
        key=$BASHPID.$((++operations))
        if [[ $habit == gives ]]; then
          item=i$life.$((++items))
          mark "begin $key peer_queue_put q $item"
          peer_queue_put q "$item:0:"
          mark "end $key $?"
        else
          mark "begin $key peer_queue_get q 1 5"
          # What a crash made one token too many of is empty.
          if got=$(peer_queue_get q 5); then mark "end $key 0 ${got%%:*}"; else mark "end $key 1"; fi
        fi
        ;;
    esac
    short_nap 4
  done
}

peer_dirlock_trylock() { mkdir -- "$1"; } 2>/dev/null
peer_dirlock_lock() { peer_retry "${2:--1}" peer_dirlock_trylock "$1"; }
peer_dirlock_unlock() { rmdir -- "$1"; }

# Nothing stays open but one inotify instance and a few marks that subshells have unlocked.
look_for_descriptors() {
  local file
  local -i directories=0 others=0
  for file in /proc/"$BASHPID"/fd/*; do
    (( ${file##*/} >= 512 )) || continue
    if [[ -d $file ]]; then directories+=1; else others+=1; fi
  done
  (( directories <= 10 && others <= 1 )) || mark "bad $directories directories and $others other descriptors are left open"
}

# Tokens and items enough for COUNT shells that wait for ever; and what the dead hold is taken from them, for peers cannot.
feed() {
  local -i count=$1
  take_each
  operate sem_post s "$count"
  while (( count-- > 0 )); do
    put; put; put; put; put
  done
}

take_each() {
  local lock verbs
  for lock in m:mutex d:dirlock b:bakery; do
    verbs=${lock#*:} lock=${lock%:*}
    operate "${verbs}_lock" "$lock" 10 || mark "bad $verbs is not to be had"
    operate "${verbs}_unlock" "$lock"
  done
}

# When everybody else has gone, of whom PEERS were peers: everything can be had, and nothing is left over.
close() {
  local value='' length left
  local -i drained=0
  take_each
  queue_len -v length q ||
    mark 'bad the queue has no length'
  while get 0; do
    drained+=${#got[@]}
  done
  [[ $(queue_len q) == 0 && ! -s q/data ]] || mark 'bad the queue is not empty after it was emptied'
  # Beside a peer that is about to post, a crash can make one token too many.
  (( drained == length || ($1 && drained < length) )) || mark "bad $length items were said to be in the queue, and there were $drained"
  # It also puts right what a peer's late post left behind.
  operate sem_trywait s
  sem_peek -v value s && mark "final $value"
  if (( value == 0 )); then [[ -L s/waitlock ]]; else [[ ! -L s/waitlock ]]; fi || mark "bad waitlock does not fit to $value tokens"
  wmutex_unlock w
  left=$(find . -mindepth 1 ! -path ./s/waitlock | sort | tr '\n' ' ')
  [[ $left == './b ./q ./q/data ./q/sem ./q/sem/counter ./q/sem/owner ./q/sem/waitlock ./s ./s/counter ./s/owner ' ]] || mark "bad left over: $left"
  { queue_destroy -f q && sem_destroy -f s && rmdir b; } || mark 'bad not to be destroyed'
}

"${5-storm}" "${@:6}"
