# shellcheck shell=bash
# Module sem: the sem builtins, for the library's names. A semaphore without a slash in its name is in ~/.toolbox/sem.

__init() {
  local __interlock_dir

  __interlock_dir=$(readlink -f -- "${BASH_SOURCE[0]}") || return 1
  __interlock_dir=${__interlock_dir%/*}/..
  # shellcheck source=shell/interlock.sh
  . "$__interlock_dir/interlock.sh" || return 1
  # shellcheck source=shell/library.sh
  . "$__interlock_dir/library.sh" || return 1

  # What the library's module brings along. Its log may be missing where there is only our part.
  if declare -F include >/dev/null; then
    include mutex wmutex || return 1
    include is log 2>/dev/null || :
  fi

  __interlock_sems="${TOOLBOX_HOME:-$HOME/.toolbox}/sem"
  mkdir -p -- "$__interlock_sems"
}

# NAME VALUE. Unlike the builtin, the library has no default for VALUE.
sem_init() {
  [[ ${1-} == -* || ${2-} == +([0-9]) ]] || return 1
  __interlock_in "$__interlock_sems" '' sem_init "$@"
}

sem_wait() {
  __interlock_in "$__interlock_sems" '' sem_wait "$@"
}

sem_trywait() {
  __interlock_in "$__interlock_sems" '' sem_trywait "$@"
}

sem_post() {
  __interlock_in "$__interlock_sems" '' sem_post "$@"
}

sem_peek() {
  __interlock_in "$__interlock_sems" v: sem_peek "$@"
}

sem_destroy() {
  __interlock_in "$__interlock_sems" f sem_destroy "$@" 2>/dev/null
}

sem_run() {
  __interlock_in "$__interlock_sems" n:t:E: sem_run "$@"
}

_sem_get_path() {
  local __interlock_path

  __interlock_place "$__interlock_sems" "$1"
  printf '%s\n' "$__interlock_path"
}

_sem_get_waitlock() {
  printf '%s/waitlock\n' "$(_sem_get_path "$1")"
}

_sem_get_countlock() {
  printf '%s/countlock\n' "$(_sem_get_path "$1")"
}

_sem_get_owner() {
  printf '%s/owner\n' "$(_sem_get_path "$1")"
}

_sem_get_counter() {
  printf '%s/counter\n' "$(_sem_get_path "$1")"
}
