# shellcheck shell=bash
# . interlock.sh: gives this shell the builtins of Interlock and the helper functions of the queue.
#
# Finds the plugin (INTERLOCK_LIB if set; beside this file; in target/release of a clone; where shell/install puts it; in
# BASH_LOADABLES_PATH; in bash's usual directories) and enables the builtins that are not there yet. Functions of the
# same names are removed, because bash would prefer them. Where the plugin cannot be had: one line on stderr, status 1;
# the shell is never ended. No variable and no option is changed.
#
# All names are long: a script may have a readonly variable of any short name, and `local` would fail. No process
# substitution, no output file: posix mode before bash 5.1 lacks the one, restricted shells the other. No brace expansion,
# no values for `local`: a script may have turned the one off and `set -k` on, which takes them away from it.

if [ -z "${BASH_VERSION-}" ]; then
  printf 'interlock.sh: this shell is not bash\n' >&2
  return 1
fi

__interlock_load() {
  local __interlock_self
  local -a __interlock_missing __interlock_places __interlock_names

  __interlock_self=${BASH_SOURCE[0]} __interlock_missing=() __interlock_places=() __interlock_names=(
    mutex_trylock mutex_lock mutex_unlock wmutex_trylock wmutex_lock wmutex_unlock
    sem_init sem_wait sem_trywait sem_post sem_peek sem_destroy
    queue_init queue_put queue_get queue_peek queue_len queue_foreach queue_destroy
    dirlock_trylock dirlock_lock dirlock_unlock bakery_trylock bakery_lock bakery_unlock
    mutex_run dirlock_run bakery_run sem_run interlock
  )

  [[ ! -L $__interlock_self ]] || __interlock_self=$(readlink -f -- "$__interlock_self")
  [[ $__interlock_self == /* ]] || __interlock_self=$PWD/$__interlock_self

  __interlock_drop_functions
  __interlock_list_missing
  (( ${#__interlock_missing[@]} == 0 )) || __interlock_enable || return 1

  if [[ $- == *i* && -r ${__interlock_self%/*}/completion.bash ]]; then
    # shellcheck source=shell/completion.bash
    . "${__interlock_self%/*}/completion.bash"
  fi
}

__interlock_enable() {
  local __interlock_lib __interlock_said __interlock_why
  local -i __interlock_before

  __interlock_why=''
  if [[ $- == *r* ]]; then
    __interlock_complain 'a restricted shell may not load builtins'
    return 1
  fi

  __interlock_list_places
  for __interlock_lib in "${__interlock_places[@]}"; do
    [[ -f $__interlock_lib ]] || continue
    __interlock_before=${#__interlock_missing[@]}
    {
      builtin enable -f "$__interlock_lib" "${__interlock_missing[@]}" || :
      # Are all there now? It spares the subshell of the list.
      builtin enable "${__interlock_names[@]}" && return 0
    } 2>/dev/null
    __interlock_list_missing
    (( ${#__interlock_missing[@]} > 0 )) || return 0
    if (( ${#__interlock_missing[@]} < __interlock_before )); then
      __interlock_complain "$__interlock_lib has no ${__interlock_missing[0]}: is it an old version?"
      return 1
    fi
    # Again, in a subshell, for what bash says about it.
    __interlock_said=$(builtin enable -f "$__interlock_lib" "${__interlock_missing[0]}" 2>&1) || :
    [[ -n $__interlock_why ]] || __interlock_why=${__interlock_said%%$'\n'*}
  done

  if [[ -n ${INTERLOCK_LIB-} && ! -f $INTERLOCK_LIB ]]; then
    __interlock_complain "no plugin at $INTERLOCK_LIB, where INTERLOCK_LIB says it is"
  elif [[ -n $__interlock_why ]]; then
    __interlock_complain "bash $BASH_VERSION does not take the plugin: ${__interlock_why#*enable: }"
  else
    __interlock_complain 'no plugin found: build it (cargo build --release), install it (shell/install) or set INTERLOCK_LIB'
  fi
  return 1
}

__interlock_complain() {
  printf 'interlock.sh: %s\n' "$1" >&2
}

# Our own modules' wrappers (include/) stay.
__interlock_drop_functions() {
  local __interlock_name
  local -a __interlock_defined

  __interlock_defined=()
  # A subshell costs more than all the rest of this file: only where output may not be sent elsewhere.
  if [[ $- == *r* ]]; then
    for __interlock_name in "${__interlock_names[@]}"; do
      [[ -z $(builtin declare -F "$__interlock_name") ]] || __interlock_defined+=("$__interlock_name")
    done
  else
    for __interlock_name in "${__interlock_names[@]}"; do
      ! builtin declare -F "$__interlock_name" || __interlock_defined+=("$__interlock_name")
    done >/dev/null
  fi
  (( ${#__interlock_defined[@]} > 0 )) || return 0
  for __interlock_name in "${__interlock_defined[@]}"; do
    [[ $(builtin declare -f "$__interlock_name") == *__interlock_* ]] || builtin unset -f "$__interlock_name"
  done
}

# `enable -f` succeeds if any one of the names could be had: what counts is what is there.
__interlock_list_missing() {
  local __interlock_name __interlock_there

  __interlock_there=$'\n'$(builtin enable -p)$'\n'
  __interlock_missing=()
  for __interlock_name in "${__interlock_names[@]}"; do
    [[ $__interlock_there == *$'\n'"enable $__interlock_name"$'\n'* ]] || __interlock_missing+=("$__interlock_name")
  done
}

__interlock_list_places() {
  local __interlock_path __interlock_dir

  __interlock_dir=${__interlock_self%/*}
  if [[ -n ${INTERLOCK_LIB-} ]]; then
    __interlock_places=("$INTERLOCK_LIB")
    return 0
  fi

  __interlock_places=(
    "$__interlock_dir/libinterlock.so"
    "$__interlock_dir/../target/release/libinterlock.so"
    "$__interlock_dir/../../lib/bash/libinterlock.so"
  )
  __interlock_path=${BASH_LOADABLES_PATH-}:/usr/local/lib/bash:/usr/lib/bash:
  while [[ -n $__interlock_path ]]; do
    __interlock_dir=${__interlock_path%%:*}
    __interlock_path=${__interlock_path#*:}
    [[ -z $__interlock_dir ]] || __interlock_places+=("$__interlock_dir/libinterlock.so")
  done
}

# The queue article's helpers, on the plugin's queues. As in the article, whoever calls the last two holds the mutex.

queue_get_semaphore() {
  printf '%s\n' "$1/sem"
}

queue_get_mutex() {
  printf '%s\n' "$1/mutex"
}

queue_get_data() {
  printf '%s\n' "$1/data"
}

# QUEUE ITEM
queue_append() {
  local __interlock_line

  __interlock_cut_tail "$1" || return 3
  __interlock_line=$(printf '%s\n' "$2" | base64 -w 0) || return 3
  printf '%s\n' "$__interlock_line" >>"$1/data" || return 3
}

# QUEUE: prints the first item and removes it; status 1 if there is none. The plugin consumes by overwriting with NUL (or
# "#", where it was killed over it), so that is skipped. A line that is nobody's item is put aside.
queue_take_head() {
  local __interlock_line

  __interlock_cut_tail "$1" || return 3
  while [[ -s $1/data ]]; do
    __interlock_line=$(head -n 1 -- "$1/data" | tr -d '\0')
    sed -i 1d -- "$1/data" || return 3
    [[ $__interlock_line != '#'* ]] || continue
    if printf '%s' "$__interlock_line" | base64 -d >/dev/null 2>&1; then
      printf '%s' "$__interlock_line" | base64 -d || return 3
      return 0
    fi
    printf '%s\n' "$__interlock_line" >>"$1/rejected" || return 3
    printf 'queue_take_head: %s: a line that is not base64 went to %s\n' \
      "${1//[[:cntrl:]]/?}" "${1//[[:cntrl:]]/?}/rejected" >&2
  done
  return 1
}

# What stands behind the last newline is consumed, or what a killed writer left: nobody needs it.
__interlock_cut_tail() {
  if [[ ! -f $1/data ]]; then
    printf '%s: no such queue\n' "${1//[[:cntrl:]]/?}" >&2
    return 3
  fi
  [[ -n $(tail -c 1 -- "$1/data" | tr '\0' x) ]] || return 0
  truncate -s "-$(tail -n 1 -- "$1/data" | wc -c)" -- "$1/data"
}

# What only loading needs goes again; and all the rest, where nothing was loaded.
if __interlock_load; then
  unset -f __interlock_load __interlock_enable __interlock_complain \
    __interlock_drop_functions __interlock_list_missing __interlock_list_places
else
  unset -f __interlock_load __interlock_enable __interlock_complain \
    __interlock_drop_functions __interlock_list_missing __interlock_list_places \
    __interlock_cut_tail queue_get_semaphore queue_get_mutex queue_get_data queue_append queue_take_head
  return 1
fi
