#!/usr/bin/env bats
# Bad input: the status and one line of section 2, before anything happens.

load helper

# Each line of stdin is a command that must be a usage error: status 2, one line that names the builtin, nothing on
# stdout. After them the directory has exactly the given files.
usage_errors() {
  cat >"$records/lines"
  in_shell '
    while IFS= read -r line; do
      rc=0; eval "$line" >"$LATCHES/out" 2>"$LATCHES/err" </dev/null || rc=$?
      mapfile -t said <"$LATCHES/err"
      if (( rc != 2 || ${#said[@]} != 1 )) || [[ -s $LATCHES/out || ${said[0]} != *": ${line%% *}: "* ]]; then
        printf "%s: status %s, says: %s\n" "$line" "$rc" "${said[*]}"
      fi
    done <"$1"; printf "tried\n"' "$records/lines"
  expect_output tried
  expect_files "$@"
}

@test "bad input: too few and too many arguments" {
  usage_errors <<'END'
mutex_trylock
mutex_lock
mutex_unlock
mutex_trylock m 1
mutex_lock m 1 2
mutex_unlock m 1
wmutex_trylock
wmutex_lock
wmutex_unlock
wmutex_trylock w 1
wmutex_lock w 1 2
wmutex_unlock w w
sem_init
sem_init s 1 2
sem_wait
sem_wait s 1 2
sem_trywait
sem_trywait s 1
sem_post
sem_post s 1 2
sem_peek
sem_peek s s
sem_peek -v
sem_destroy
sem_destroy s s
queue_init
queue_init q q
queue_put
queue_put q
queue_put -f
queue_put -f /dev/null
queue_put -f /dev/null q item
queue_get
queue_get q 1 2
queue_get -v
queue_get -a
queue_get -a array -n
queue_peek
queue_peek q q
queue_len
queue_len q q
queue_foreach
queue_foreach q
queue_destroy
queue_destroy q q
END
}

@test "bad input: an unknown option" {
  local name
  for name in {,w}mutex_{trylock,lock,unlock} sem_{init,wait,trywait,post,peek,destroy} queue_{init,get,peek,len,destroy}; do
    printf '%s -z x\n' "$name"
  done | usage_errors
}

@test "bad input: a timeout that is not one" {
  local timeout command
  in_shell 'sem_init s; queue_init q'
  for command in 'mutex_lock m' 'wmutex_lock w' 'sem_wait s' 'queue_get q'; do
    for timeout in 5s 1e3 nan inf -inf 0x10 ' 1' '1 ' '1 2' . - -- + .5.5 1,5 'a[0]' '$(touch X)' ١; do
      printf '%s %q\n' "$command" "$timeout"
    done
  done | usage_errors s q
}

@test "bad input: a timeout too big to count is for ever, not an error of another kind" {
  in_shell 'ln -s 1 m; (mutex_lock m 99999999999999999999999; latch ended) & nap 0.2; kill $!; wait $! || printf "%s\n" $?'
  expect_output 143
}

@test "bad input: values and counts that are not numbers, negative or too big" {
  in_shell 'sem_init s 4; queue_init q; queue_put q item'
  usage_errors s q <<'END'
sem_init n x
sem_init n -1
sem_init n 1.5
sem_init n 99999999999999999999
sem_init n ''
sem_init n ' 1'
sem_init n 'a[$(touch X)]'
sem_post s x
sem_post s -1
sem_post s 1.5
sem_post s 99999999999999999999
sem_post s ''
queue_get -a array -n x q
queue_get -a array -n -1 q
queue_get -a array -n 1.5 q
queue_get -a array -n 99999999999999999999 q
END
  in_shell 'sem_peek s; queue_len q'
  expect_output $'4\n1'
}

@test "bad input: posting beyond the biggest value changes nothing" {
  in_shell 'sem_init s 9223372036854775807; answer sem_post s; sem_peek s; answer sem_trywait s; sem_peek s'
  expect_output $'3\n9223372036854775807\n0\n9223372036854775806'
  expect_error '*sem_post: s*'
}

@test "bad input: a variable that cannot be delivered to" {
  in_shell 'sem_init s 2; queue_init q; queue_put q one two'
  local what
  for what in '' 1 a-b 'a b' 'a[0]' 'a[$(touch X)]' 'x;y' '*'; do
    printf 'sem_peek -v %q s\nqueue_get -v %q q\nqueue_get -n 1 -a %q q\nqueue_peek -v %q q\nqueue_len -v %q q\n' "$what" "$what" "$what" "$what" "$what"
  done | usage_errors s q
  in_shell 'sem_peek s; queue_len q'
  expect_output $'2\n2'
}

@test "bad input: a variable that is readonly, integer or a map keeps the item in the queue" {
  in_shell '
    queue_init q; queue_put q "a[\$(touch X)]"
    readonly fixed=1; declare -i number=1; declare -A map=([a]=b); declare -n loose=map; declare -n trap="a[\$(touch X)]" 2>/dev/null
    for i in fixed number map loose; do answer queue_get -v "$i" q; answer queue_get -n 1 -a "$i" q; done
    printf "%s %s %s\n" "$fixed" "$number" "${map[a]}"; queue_len q; queue_get q'
  [[ $output == *$'\n1 1 b\n1\na[$(touch X)]' ]]
  [[ ${output%$'\n1 1 b\n'*} != *[!23$'\n']* ]]
  expect_files q
}

@test "bad input: an empty name" {
  usage_or_system() {
    local command
    for command in mutex_trylock mutex_lock wmutex_lock sem_init sem_wait sem_post sem_peek queue_init queue_get queue_len; do
      in_shell "$command ''"
      (( status == 2 || status == 3 )) || fail "$command: $status" || return
      expect_error "*$command: *" || return
    done
  }
  usage_or_system
  expect_files
}

@test "bad input: names on other hosts are reserved" {
  usage_errors <<'END'
mutex_lock ssh://host/m
mutex_trylock a://
wmutex_lock x://w
sem_init sem://s
sem_post tcp://s
queue_init q://
queue_put q://h/q item
queue_get http://q
END
  in_shell 'answer mutex_trylock ./ssh:'
  expect_output 0
}

@test "bad input: objects that are missing are an error at once" {
  local command
  for command in 'sem_wait s' 'sem_wait s 5' 'sem_trywait s' 'sem_post s' 'sem_peek s' 'sem_peek -v x s' 'sem_destroy s' 'sem_destroy -f s' \
    'queue_put s x' 'queue_get s' 'queue_get s 5' 'queue_peek s' 'queue_len s' 'queue_foreach s :' 'queue_destroy s' 'queue_destroy -f s' \
    'mutex_lock no/m 5' 'mutex_trylock no/m' 'mutex_unlock no/m' 'wmutex_lock no/w 5' 'sem_init no/s' 'queue_init no/q'; do
    in_shell "$command"
    (( status == 3 )) || fail "$command: $status" || return
    expect_error "*${command%% *}: *: No such file or directory" || return
    [[ -z $output ]]
  done
  expect_files
}

@test "bad input: objects of another type are an error at once and untouched" {
  local command
  in_shell 'sem_init s 2; queue_init q; queue_put q item'
  ln -s 1 m
  : >f
  for command in 'sem_wait q 5' 'sem_post q' 'sem_peek q' 'sem_destroy q' 'sem_destroy -f q' 'queue_put s x' 'queue_get s 5' \
    'queue_len s' 'queue_destroy s' 'queue_destroy -f s' 'mutex_lock s 5' 'mutex_unlock s' 'mutex_unlock -f q' \
    'sem_wait f' 'sem_post f' 'queue_put f x' 'queue_get f' 'mutex_lock f 5' 'mutex_unlock -f f' 'wmutex_lock f 5' 'wmutex_unlock f'; do
    in_shell "$command"
    (( status == 3 )) || fail "$command: $status" || return
    expect_error "*${command%% *}: *" || return
  done
  in_shell 'sem_peek s; queue_len q; queue_get q; answer sem_init f; answer queue_init m; answer sem_init q'
  expect_output $'2\n1\nitem\n1\n1\n1'
  expect_files f m q s
}

@test "bad input: dots and slashes are nothing to lock, make or destroy" {
  in_shell 'queue_init q; queue_put q item; sem_init s 3'
  local command
  for command in 'mutex_lock . 5' 'mutex_trylock ..' 'mutex_lock / 5' 'mutex_lock s/ 5' 'mutex_unlock .' 'wmutex_lock .. 5' \
    'sem_destroy -f .' 'sem_destroy -f ..' 'sem_destroy -f /' 'queue_destroy -f .' 'queue_destroy -f ..' 'queue_destroy -f q/sem/..' 'queue_destroy -f q/.' \
    'sem_destroy -f q/sem/.' 'dirlock_unlock -f ..' 'dirlock_unlock -f q' 'dirlock_unlock -f s'; do
    in_shell "cd q; cd ../q/sem; cd ../..; $command"
    (( status == 3 || status == 2 )) || fail "$command: $status" || return
    [[ -n $errors ]] || fail "$command says nothing" || return
  done
  in_shell 'cd q; answer queue_init .; answer queue_init ..; queue_len .; cd sem; sem_peek .; queue_get ..; sem_peek ../../s/'
  expect_output $'1\n1\n1\n1\nitem\n3'
  expect_files q s
}

@test "bad input: --help prints the help and succeeds" {
  local name
  while IFS= read -r name; do
    in_shell "$name --help"
    [[ $output == *"$name"* && $output == *$'\n'*$'\n'* ]] || fail "$name --help: '$output' '$errors'" || return
    (( status == 0 || status == 2 )) || return
  done <<<"$INTERLOCK_NAMES"
  expect_files
}

@test "bad input: after the name everything is data" {
  in_shell '
    queue_init q; queue_put q -n -v -- --help; answer queue_len q
    while queue_get -v item q 0; do printf "<%s>\n" "$item"; done
    answer mutex_lock -- -m; answer mutex_unlock -- -m'
  expect_output $'4\n0\n<-n>\n<-v>\n<-->\n<--help>\n0\n0'
}
