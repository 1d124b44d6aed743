# shellcheck shell=bash
# For the modules sem and queue: an object whose name has no slash lives in a directory of the library's.
#
# A variable to fill (-v) belongs to the caller, who must not meet ours: hence the names.

# DIR NAME: puts the path into __interlock_path.
__interlock_place() {
  case "$2" in
  ''|*/*) __interlock_path=$2 ;;
  *)      __interlock_path=$1/$2 ;;
  esac
}

# DIR OPTIONS BUILTIN ARGUMENT…: calls BUILTIN on its object, the first ARGUMENT behind the OPTIONS (as for getopts).
__interlock_in() {
  local OPTIND=1 OPTARG __interlock_option __interlock_path
  local -a __interlock_words=("${@:4}")

  if (( $# > 3 )); then
    while getopts ":$2" __interlock_option "${__interlock_words[@]}"; do :; done
    if (( OPTIND <= ${#__interlock_words[@]} )); then
      __interlock_place "$1" "${__interlock_words[OPTIND - 1]}"
      __interlock_words[OPTIND - 1]=$__interlock_path
    fi
  fi
  builtin "$3" "${__interlock_words[@]}"
}
