#!/usr/bin/env bats
# FIELD REPORTS: names. Paths are bytes.

load helper

all_families='
  all() {
    answer mutex_lock "$1"; answer mutex_trylock -- "$1"; answer mutex_unlock "$1"
    answer wmutex_lock "$1"; answer wmutex_unlock "$1"
    answer sem_init "$1" 1; answer sem_wait "$1"; sem_peek "$1"; answer sem_destroy "$1"
    answer queue_init "$1"; answer queue_put "$1" item; queue_get "$1"; answer queue_destroy "$1"
  }'
all_right=$'0\n1\n0\n0\n0\n0\n0\n0\n0\n0\n0\nitem\n0'

@test "names: spaces, newlines, globs, quotes and code are literal" {
  local name
  # shellcheck disable=SC1003 # a backslash
  for name in 'a b' ' ' $'a\nb' '*' '?' '[a]' '$(touch X)' '`touch X`' ';' '"' "'" '\' $'\t' '$HOME' '~' '#' '&' '!' 'a:b' ä $'\x01' ...; do
    in_shell "$all_families"'; all "$1"' "$name"
    [[ $output == "$all_right" ]] || fail "'$name': $output" || return
    expect_quiet || return
    expect_files || return
  done
  in_shell 'mutex_lock "$1"; sem_init "$2"; queue_init "$3"' $'a\nb' '$(touch X)' '*'
  expect_files '$(touch X)' '*' a b
}

@test "names: bytes that are not UTF-8, in any locale" {
  local locale name=$'\xff\xfe\x80'
  for locale in C C.UTF-8; do
    LC_ALL=$locale in_shell "$all_families"'; all "$1"' "$name"
    [[ $output == "$all_right" ]]
    expect_quiet
  done
  in_shell 'mutex_lock no/"$1"' "$name"
  expect_status 3
}

@test "names: a leading dash after --" {
  in_shell '
    answer mutex_lock -- -c; answer mutex_unlock -- -c
    answer sem_init -- -s 1; answer sem_wait -- -s 5; answer sem_destroy -f -- -s
    answer queue_init -- -v; answer queue_put -- -v -f; queue_get -- -v; answer queue_destroy -- -v'
  expect_output $'0\n0\n0\n0\n0\n0\n0\n-f\n0'
  expect_files
}

@test "names: 255 bytes are a name, 256 are too long" {
  local name
  printf -v name '%255s' x
  in_shell "$all_families"'; all "$1"' "${name// /n}"
  expect_output "$all_right"
  local command
  for command in 'mutex_lock "$1" 5' 'mutex_trylock "$1"' 'mutex_unlock "$1"' 'wmutex_lock "$1" 5' 'sem_init "$1"' 'sem_wait "$1" 5' 'queue_init "$1"' 'queue_put "$1" x'; do
    in_shell "$command" "${name// /n}n"
    (( status == 3 )) || fail "$command: $status" || return
    expect_error '*: File name too long' || return
  done
  expect_files
}

@test "names: 4,095 bytes are a path, 4,097 are too long" {
  local path=$T component
  printf -v component '%200s' ''
  component=${component// /d}
  while (( ${#path} + 201 < 4000 )); do
    path+=/$component
    mkdir "./${path#"$T"/}" 2>/dev/null || { cd "${path%/*}" && mkdir "$component"; }
  done
  local -i rest=4095-${#path}-1
  printf -v component '%*s' "$rest" ''
  # Longer than a component may be: slashes do not count.
  path+=/${component// //}
  path=${path:0:4094}m
  (( ${#path} == 4095 ))
  in_shell 'answer mutex_lock "$1"; answer mutex_trylock "$1"; answer mutex_unlock "$1"' "$path"
  expect_output $'0\n1\n0'
  # Of a queue, too: its parts are not reached by longer paths.
  in_shell '
    answer queue_init "$1"; answer queue_get "$1" 0; answer queue_get "$1" 0.02; queue_put "$1" item; answer queue_len "$1"
    answer queue_get "$1" 0; answer queue_destroy "$1"' "$path"
  expect_output $'0\n1\n1\n1\n0\nitem\n0\n0'
  expect_quiet
  in_shell 'mutex_lock "$1" 5' "//${path%m}m"
  expect_status 3
  expect_error '*: File name too long'
}

@test "names: newlines and escape sequences do not get into messages, whatever they are names of" {
  in_shell $'
    odd=$1; . "$INTERLOCK_ROOT/shell/interlock.sh"
    queue_init q; : >"q/$odd"; queue_init r; : >"r/sem/$odd"; sem_init s; : >"s/$odd"; dirlock_lock d; : >"d/$odd"
    for call in "queue_destroy q" "queue_destroy r" "sem_destroy s" "dirlock_unlock d" "mutex_lock no/$odd" \
        "mutex_trylock x://$odd" "queue_put -f none/$odd q" "sem_wait s $odd" "queue_get -v $odd q" "mutex_lock -$odd m" \
        "interlock $odd" "interlock stat $odd" "interlock break -y $odd"; do
      IFS="|" read -ra words -d "" <<<"${call// /|}" || :
      words=("${words[@]%$\'\n\'}")
      "${words[@]}" && printf "%s: done\n" "${words[*]}"
    done; queue_append no "$odd" || :; queue_append "$odd" x || :' $'x\e]0;title\a\n\u009b1my'
  expect_output ''
  [[ $(grep -c '' <<<"$errors") == 15 ]] || fail "$errors"
  refute grep -q $'[\x01-\x09\x0b-\x1f\x7f\u0080-\u009f]' <<<"$errors"
}

@test "names: a subscripted variable is refused, not run" {
  in_shell '
    sem_init s 1; queue_init q; queue_put q item
    answer sem_peek -v "a[\$(touch X)]" s; answer queue_get -v "a[\$(touch X)]" q; answer queue_get -n 1 -a "a[\$(touch X)]" q
    answer queue_peek -v "a[\$(touch X)]" q; answer queue_len -v "a[\$(touch X)]" q; queue_len q' 
  expect_output $'2\n2\n2\n2\n2\n1'
  expect_files q s
}

@test "names: our own temporary names are reserved" {
  in_shell 'answer mutex_lock .interlock; answer sem_init .interlock-1; answer queue_init ./.interlock'
  expect_output $'2\n2\n2'
  expect_files
}

@test "names: relative ones follow cd" {
  mkdir a b
  in_shell 'cd a; mutex_lock m; cd ../b; answer mutex_unlock m; cd ../a; answer mutex_unlock m'
  expect_output $'1\n0'
}
