# shellcheck shell=bash
# Module mutex: the mutex builtins, as quiet as the library's functions.

__init() {
  local __interlock_dir

  __interlock_dir=$(readlink -f -- "${BASH_SOURCE[0]}") || return 1
  __interlock_dir=${__interlock_dir%/*}/..
  # shellcheck source=shell/interlock.sh
  . "$__interlock_dir/interlock.sh" || return 1
  # shellcheck source=shell/library.sh
  . "$__interlock_dir/library.sh"
}

mutex_trylock() {
  __interlock_quietly mutex_trylock "$@"
}

mutex_lock() {
  __interlock_lock mutex "$@"
}

mutex_unlock() {
  __interlock_quietly mutex_unlock "$@"
}
