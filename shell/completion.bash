# shellcheck shell=bash
# Completion for the builtins: options and verbs as their own usage lines have them, then what exists of the right kind.
# interlock.sh sources it in interactive shells; shell/install puts it where bash-completion looks.

# BUILTIN WORD PREVIOUS, as bash calls it.
_interlock() {
  local builtin="$1" word="$2" previous="$3" usage path
  local -i first=1

  COMPREPLY=()
  if [[ $builtin == interlock ]]; then
    if (( COMP_CWORD == 1 )); then
      usage=$(help -s interlock)
      usage=${usage#*: interlock }
      usage=${usage%% *}
      _interlock_reply compgen -W "${usage//|/ }" -- "$word"
      return 0
    fi
    usage=$(interlock "${COMP_WORDS[1]}" --help 2>/dev/null)
    first=2
  else
    usage=$(help -s "$builtin" 2>/dev/null)
  fi
  usage=${usage%%$'\n'*}

  case "$previous:$usage" in
  -v:*'-v VAR'*)   _interlock_reply compgen -v -- "$word" ;;
  -a:*'-a ARRAY'*) _interlock_reply compgen -A arrayvar -- "$word" ;;
  -f:*'-f FILE'*)  _interlock_reply compgen -f -- "$word" ;;
  -?:*"$previous "[A-Z]*) ;;
  *)
    if [[ $word == -* ]]; then
      _interlock_reply compgen -W "$(grep -oE -e '-(-[a-z]+|[a-z0-9])\b' <<<"$usage") --help" -- "$word"
    elif _interlock_is_name "$usage" "$first"; then
      while IFS= read -r path; do
        ! _interlock_fits "$builtin" "$path" || COMPREPLY+=("$path")
      done <<<"$(compgen -f -- "$word")"
    elif [[ $builtin == *_run ]]; then
      _interlock_reply compgen -A command -A file -- "$word"
    fi
    ;;
  esac
}

# COMMAND…: its lines become the answers.
_interlock_reply() {
  local lines

  lines=$("$@") && mapfile -t COMPREPLY <<<"$lines"
}

# USAGE FIRST: is the word at the cursor the first that is no option and no option's value?
_interlock_is_name() {
  local -i i
  local word

  for (( i = $2; i < COMP_CWORD; i++ )); do
    word=${COMP_WORDS[i]}
    [[ $word == -?* ]] || return 1
    # An option with a value has a word in capitals behind it.
    [[ $word != -? || $1 != *"$word "[A-Z]* ]] || (( i++ ))
  done
  (( i == COMP_CWORD ))
}

# BUILTIN PATH: is it an object for the builtin, or a directory in which there may be one?
_interlock_fits() {
  local kind

  if   [[ -L $2 ]];                    then kind=symlink
  elif [[ ! -d $2 ]];                  then return 1
  elif [[ -d $2/sem && -e $2/data ]];  then kind=queue
  elif [[ -e $2/counter ]];            then kind=sem
  elif [[ -f $2/owner && ! -L $2/owner ]]; then kind=dirlock
  else return 0
  fi
  case "$1:$kind" in
  *_init:*) return 1 ;;
  interlock:*|mutex_*:symlink|wmutex_*:symlink|sem_*:sem|queue_*:queue|dirlock_*:dirlock) ;;
  *) return 1 ;;
  esac
}

_interlock_complete_all() {
  local builtin

  while read -r builtin; do
    case "$builtin" in
    interlock|mutex_*|wmutex_*|sem_*|queue_*|dirlock_*|bakery_*) complete -o filenames -F _interlock "$builtin" ;;
    esac
  done <<<"$(compgen -b)"
}

_interlock_complete_all
unset -f _interlock_complete_all
