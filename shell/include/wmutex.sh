# shellcheck shell=bash
# Module wmutex: wmutex_trylock, wmutex_lock and wmutex_unlock as builtins.

__init() {
  local __interlock_dir

  __interlock_dir=$(readlink -f -- "${BASH_SOURCE[0]}") || return 1
  # shellcheck source=shell/interlock.sh
  . "${__interlock_dir%/*}/../interlock.sh"
}
