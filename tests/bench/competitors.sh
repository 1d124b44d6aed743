# shellcheck shell=bash disable=SC2016,SC2034,SC2154,SC2190
# Who is compared, as code for the workers, which are run by bash or zsh. `object` is a path or a name of its own; `item`
# and `items` are what is put, `got` what comes out.
#
# setup: once in each process · take, give: a lock, or one token of a semaphore · pair: both at once, where they cannot be
# had apart · put, get, put_many, get_many: a queue.

typeset -A setup take give pair put get put_many get_many

load_interlock() {
	. "$root/shell/interlock.sh"
}

setup[mutex]='load_interlock'
take[mutex]='mutex_lock "$object"'
give[mutex]='mutex_unlock "$object"'

setup[wmutex]='load_interlock'
take[wmutex]='wmutex_lock "$object"'
give[wmutex]='wmutex_unlock "$object"'

setup[dirlock]='load_interlock'
take[dirlock]='dirlock_lock "$object"'
give[dirlock]='dirlock_unlock "$object"'

setup[bakery]='load_interlock; mkdir -p "$object"'
take[bakery]='bakery_lock "$object"'
give[bakery]='bakery_unlock "$object"'

setup[semaphore]='load_interlock; sem_init "$object" "${tokens:-1}" || :'
take[semaphore]='sem_wait "$object"'
give[semaphore]='sem_post "$object"'

setup[queue]='load_interlock; queue_init "$object" || :'
take[queue]='queue_get -v got "$object"'
give[queue]='queue_put "$object" x'
put[queue]='queue_put "$object" "$item"'
get[queue]='queue_get -v got "$object"'
put_many[queue]='queue_put "$object" "${items[@]}"'
get_many[queue]='queue_get -a got -n "${#items[@]}" "$object"'

# The pure-bash peer.
setup[peer]='. "$root/tests/peer/peer.bash"'
take[peer]='peer_mutex_lock "$object"'
give[peer]='peer_mutex_unlock "$object"'

setup[peer_semaphore]='. "$root/tests/peer/peer.bash"; peer_sem_init "$object" "${tokens:-1}" || :'
take[peer_semaphore]='peer_sem_wait "$object"'
give[peer_semaphore]='peer_sem_post "$object"'

setup[peer_queue]='. "$root/tests/peer/peer.bash"; peer_queue_init "$object" || :'
put[peer_queue]='peer_queue_put "$object" "$item"'
get[peer_queue]='got=$(peer_queue_get "$object")'

# What bash can do at best.
pair[colon]=':; :'
put[colon]=': "$item"'
get[colon]=':'
setup[pipe]='[[ -p $object ]] || mkfifo "$object"; exec {pipe}<>"$object"'
take[pipe]='read -r -n 1 <&"$pipe"'
give[pipe]='printf x >&"$pipe"'

setup[pipe_queue]=${setup[pipe]}
put[pipe_queue]='printf "%s\n" "$item" >&"$pipe"'
get[pipe_queue]='IFS= read -r got <&"$pipe"'

# bash's own example builtins.
setup[ln_rm]='enable -f /usr/lib/bash/ln ln; enable -f /usr/lib/bash/rm rm'
pair[ln_rm]='ln -s "$$" "$object"; rm "$object"'

# zsh's module.
setup[zsystem]='zmodload zsh/system; : >>"$object"'
take[zsystem]='zsystem flock -f lock "$object"'
give[zsystem]='zsystem flock -u "$lock"'

# Programs.
setup[flock]='exec {lock}>>"$object"'
take[flock]='flock "$lock"'
give[flock]='flock -u "$lock"'

take[lockfile]='lockfile -1 "$object"'
give[lockfile]='rm -f "$object"'

take[dotlockfile]='dotlockfile -r -1 -i 1 "$object"'
give[dotlockfile]='dotlockfile -u "$object"'

# Programs that hold their lock while another one runs: that one says that it does, and ends when it is told to.
around() {
	"$@" sh "$root/tests/bench/hold.sh" "$object.$$.say" "$object.$$.tell" &
	read -r <&"$say"
}
after() {
	printf '\n' >&"$tell"
	wait "$!"
}
setup_around() {
	mkfifo "$object.$$.say" "$object.$$.tell"
	exec {say}<>"$object.$$.say" {tell}<>"$object.$$.tell"
}
setup[lckdo]='setup_around'
pair[lckdo]='lckdo -w "$object" true'
take[lckdo]='around lckdo -w "$object"'
give[lckdo]='after'

setup[sem]='setup_around'
pair[sem]='sem --fg --id "${object//\//-}" true'
take[sem]='around sem --fg --id "${object//\//-}"'
give[sem]='after'

setup[filelock]='setup_around'
take[filelock]='around /usr/bin/python3 "$root/tests/bench/filelock_run.py" "$object"'
give[filelock]='after'

# Message passing.
redis() {
	redis-cli -s "$REDIS_SOCKET" "$@"
}
take[redis]='redis BLPOP "$object" 0 >/dev/null'
give[redis]='redis LPUSH "$object" x >/dev/null'
pair[redis]="${give[redis]}; ${take[redis]}"
put[redis]='redis RPUSH "$object" "$item" >/dev/null'
get[redis]='got=$(redis BLPOP "$object" 0)'

# A queue of jobs: what is put is run. The wait is for all of them.
setup[nq]='mkdir -p "$object"; export NQDIR="$object"'
put[nq]='nq true >/dev/null'
get[nq]=':'
