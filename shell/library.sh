# shellcheck shell=bash
# What the modules (include/) share: the ways of the article library that a builtin need not know.
#
# A variable to fill (-v) belongs to the caller, who must not meet ours: hence the names. Values come after `local`, since
# `set -k` would take them away from it.

# BUILTIN ARGUMENT…: the library's functions say nothing when they fail; scripts unlock in traps what they may not have.
__interlock_quietly() {
  builtin "$@" 2>/dev/null
}

# mutex|wmutex NAME [TIMEOUT]: as silent, except while it waits, for traps may write to stderr.
__interlock_lock() {
  local __interlock_status

  __interlock_status=0
  if [[ ${2-} != -* ]]; then
    builtin "$1_trylock" "${@:2:1}" 2>/dev/null || __interlock_status=$?
    (( __interlock_status == 1 )) || return "$__interlock_status"
  fi
  builtin "$1_lock" "${@:2}"
}

# DIR NAME: puts the path into __interlock_path.
__interlock_place() {
  case "$2" in
  ''|*/*) __interlock_path=$2 ;;
  *)      __interlock_path=$1/$2 ;;
  esac
}

# DIR OPTIONS BUILTIN ARGUMENT…: calls BUILTIN on its object, the first ARGUMENT behind the OPTIONS (as for getopts).
__interlock_in() {
  local OPTIND OPTARG __interlock_option __interlock_path
  local -a __interlock_words

  OPTIND=1 __interlock_words=("${@:4}")
  if (( $# > 3 )); then
    while getopts ":$2" __interlock_option "${__interlock_words[@]}"; do :; done
    if (( OPTIND <= ${#__interlock_words[@]} )); then
      __interlock_place "$1" "${__interlock_words[OPTIND - 1]}"
      __interlock_words[OPTIND - 1]=$__interlock_path
    fi
  fi
  builtin "$3" "${__interlock_words[@]}"
}
