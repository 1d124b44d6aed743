# shellcheck shell=bash
# Module mutex: mutex_trylock, mutex_lock and mutex_unlock as builtins.

__init() {
  local __interlock_dir

  __interlock_dir=$(readlink -f -- "${BASH_SOURCE[0]}") || return 1
  # shellcheck source=shell/interlock.sh
  . "${__interlock_dir%/*}/../interlock.sh"
}
