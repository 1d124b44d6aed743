# shellcheck shell=bash disable=SC2119,SC2120 # the tests have other times to nap
# What every shell under test begins with: the plugin, and how shells of one test meet.

# shellcheck disable=SC2086 # a list of names
enable -f "$INTERLOCK_LIB" ${INTERLOCK_NAMES:?} || exit 99

nap() {
  local pause=${1:-0.005}
  # Before 5.2 read misses an alarm that comes before it has begun. (A program instead would hold the locks of its shell.)
  if [[ $pause == 0.00* ]] && (( BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 502 )); then
    pause=0.02
  fi
  read -rt "$pause" <>"$LATCHES/.nap" || :
}

latch() {
  : >"$LATCHES/$1"
}

# await LATCH [LIMIT]
await() {
  local -i end=SECONDS+${2:-30}
  until [[ -e $LATCHES/$1 ]]; do
    if (( SECONDS > end )); then
      printf '%s\n' "nobody came to $1" >&2
      exit 98
    fi
    nap
  done
}

# barrier NAME COUNT: goes on when COUNT processes have come.
barrier() {
  local -i end=SECONDS+30
  local -a here=()
  : >"$LATCHES/$1.at.$BASHPID"
  while here=("$LATCHES/$1.at."*) && (( ${#here[@]} < $2 )); do
    if (( SECONDS > end )); then
      printf '%s\n' "only ${#here[@]} came to $1" >&2
      exit 98
    fi
    nap
  done
}

# Prints the status of a command, whatever `set -e` thinks of it.
answer() {
  local rc=0
  "$@" || rc=$?
  printf '%s\n' "$rc"
}

# Milliseconds of a clock, for differences.
clock() {
  local seconds
  if [[ -n ${EPOCHREALTIME-} ]]; then
    seconds=${EPOCHREALTIME/[^0-9]/}
    printf -v "$1" '%s' "${seconds%???}"
  else
    printf -v "$1" '%s' "$(date +%s%3N)"
  fi
}

# shell CODE [ARG…]: another script, not a subshell of this one.
shell() {
  local code=$1
  shift
  "$BASH" -c ". \"\$INTERLOCK_PRELUDE\"; $code" shell "$@"
}

# peer CODE [ARG…]: another script that knows only the pure-bash functions.
peer() {
  local code=$1
  shift
  "$BASH" -c ". \"\$INTERLOCK_PEER\"; $code" peer "$@"
}

case $INTERLOCK_MODE in
  strict) set -eu ;;
  posix) set -o posix ;;
esac
