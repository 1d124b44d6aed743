# shellcheck shell=bash
# Module queue: the queue builtins, for the library's names. A queue without a slash in its name is in ~/.toolbox/queue.

__init() {
  local __interlock_dir

  __interlock_dir=$(readlink -f -- "${BASH_SOURCE[0]}") || return 1
  __interlock_dir=${__interlock_dir%/*}/..
  # shellcheck source=shell/interlock.sh
  . "$__interlock_dir/interlock.sh" || return 1
  # shellcheck source=shell/library.sh
  . "$__interlock_dir/library.sh" || return 1

  # What the library's module brings along.
  if declare -F include >/dev/null; then
    include mutex sem || return 1
  fi

  __interlock_queues="${TOOLBOX_HOME:-$HOME/.toolbox}/queue"
  mkdir -p -- "$__interlock_queues"
}

queue_init() {
  __interlock_in "$__interlock_queues" '' queue_init "$@"
}

queue_put() {
  __interlock_in "$__interlock_queues" f: queue_put "$@"
}

queue_get() {
  __interlock_in "$__interlock_queues" v:a:n: queue_get "$@"
}

queue_peek() {
  __interlock_in "$__interlock_queues" v:a: queue_peek "$@"
}

queue_len() {
  __interlock_in "$__interlock_queues" v: queue_len "$@"
}

queue_foreach() {
  __interlock_in "$__interlock_queues" '' queue_foreach "$@"
}

queue_destroy() {
  __interlock_in "$__interlock_queues" f queue_destroy "$@" 2>/dev/null
}

_queue_get_path() {
  local __interlock_path

  __interlock_place "$__interlock_queues" "$1"
  printf '%s\n' "$__interlock_path"
}

_queue_get_sem() {
  printf '%s/sem\n' "$(_queue_get_path "$1")"
}

_queue_get_mutex() {
  printf '%s/mutex\n' "$(_queue_get_path "$1")"
}

_queue_get_data() {
  printf '%s/data\n' "$(_queue_get_path "$1")"
}
