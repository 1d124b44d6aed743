# shellcheck shell=bash
# Completion for the builtins: options and verbs as their own usage lines have them, then what exists of the right kind.
# interlock.sh sources it in interactive shells; shell/install puts it where bash-completion looks.

# BUILTIN WORD PREVIOUS, as bash calls it.
_interlock() {
  local builtin="$1" word="$2" previous="$3" usage path
  local -i first=1 name

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
      return 0
    fi
    _interlock_find_name "$usage" "$first"
    case "$builtin ${COMP_WORDS[1]}:$(( COMP_CWORD - name ))" in
    'interlock ls:'*|'interlock version:0') _interlock_reply compgen -d -- "$word" ;;
    *:0)
      while IFS= read -r path; do
        ! _interlock_fits "$builtin" "$path" || COMPREPLY+=("$path")
      done <<<"$(compgen -f -- "$word")"
      ;;
    *_run\ *:1) _interlock_reply compgen -A command -A file -- "$word" ;;
    *_run\ *)   _interlock_reply compgen -f -- "$word" ;;
    esac
    ;;
  esac
}

# COMMAND…: its lines become the answers.
_interlock_reply() {
  local lines

  lines=$("$@") && mapfile -t COMPREPLY <<<"$lines"
}

# USAGE FIRST: puts the place of the first word that is no option and no option's value into `name`.
_interlock_find_name() {
  local word

  for (( name = $2; name < COMP_CWORD; name++ )); do
    word=${COMP_WORDS[name]}
    [[ $word == -?* ]] || return 0
    # An option with a value has a word in capitals behind it.
    [[ $word != -? || $1 != *"$word "[A-Z]* ]] || (( ++name ))
  done
}

# BUILTIN PATH: is it an object for the builtin, or a directory in which there may be one?
_interlock_fits() {
  local kind path="$2"

  [[ $path != \~/* ]] || path=$HOME${path#\~}
  if   [[ -L $path ]];                             then kind=symlink
  elif [[ ! -d $path ]];                           then return 1
  elif [[ -d $path/sem && -e $path/data ]];        then kind=queue
  elif [[ -e $path/counter ]];                     then kind=sem
  elif [[ -f $path/owner && ! -L $path/owner ]];   then kind=dirlock
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
