# shellcheck shell=bash disable=SC2154
# The measurements. Each appends samples to $out/samples: FIGURE, WHO, PLACE and a number, in nanoseconds where it is a time.

sample() {
	[[ -z $4 ]] || printf '%s\t%s\t%s\t%s\n' "$@" >>"$out/samples"
}

# NAME: which shell the worker of a competitor is run by, and whether it is there at all.
shell_of() {
	shell=(bash)
	case $1 in
	zsystem)
		shell=(zsh -f)
		type -P zsh
		;;
	ln_rm) [[ -e /usr/lib/bash/ln ]] ;;
	flock | lckdo | sem | lockfile | dotlockfile | nq) type -P "$1" ;;
	redis) type -P redis-cli ;;
	filelock) /usr/bin/python3 -c 'import filelock' 2>&1 ;;
	esac >/dev/null
}

# NAME OBJECT MICROSECONDS TEST…
work() {
	shell_of "$1" && "${shell[@]}" "$here/worker.sh" "$@" 2>>"$out/errors"
}

limit() {
	"$out/limit" "$@" 2>>"$out/errors"
}

# Nobody waits for anybody.
measure_pair() {
	local round place dir name

	for (( round = 0; round < 11; round++ )); do
		for place in "${!places[@]}"; do
			dir=${places[$place]}
			for name in colon mutex zsystem ln_rm wmutex dirlock bakery semaphore; do
				sample pair "$name" "$place" "$(work "$name" "$dir/$name" 40000 pair)"
				[[ $name != mutex ]] || sample pair limit_mutex "$place" "$(limit mutex "$dir" 2000)"
			done
			sample pair limit_semaphore "$place" "$(limit semaphore "$dir/semaphore" 1000)"
			# Programs cost milliseconds, wherever their file is.
			if [[ $place != tmpfs ]] || (( round % 3 )); then
				continue
			fi
			for name in flock peer lckdo lockfile dotlockfile sem redis peer_semaphore; do
				sample pair "$name" "$place" "$(work "$name" "$dir/$name" 40000 pair)"
			done
			shell_of filelock && sample pair filelock "$place" "$(/usr/bin/python3 "$here/filelock_run.py" "$dir/filelock")"
		done
	done
}

# NAME PLACE COUNT MODE: starts COUNT contenders besides the first one, which has it. Sets `dir`, `group`, `contenders`.
start_contenders() {
	local name=$1 count=$3 mode=$4
	local object i pid

	dir=$(mktemp -d "${places[$2]}/contend.XXXXXX")
	object=$dir/object
	mkfifo "$dir/turn" "$dir/idle" "$dir/ready" "$dir/started" "$dir/go"
	contenders=()
	shell_of "$name" || return 1
	exec {ready}<>"$dir/ready"
	# A process group of their own: some have children.
	set -m
	{
		"${shell[@]}" "$here/contender.sh" "$name" "$object" "$dir" first &
		read -r -t 10 <"$dir/started"
		for (( i = 0; i < count; i++ )); do
			"${shell[@]}" "$here/contender.sh" "$name" "$object" "$dir" "$mode" &
		done
		wait
	} 2>>"$out/errors" &
	group=$!
	set +m
	for (( i = 0; i <= count; i++ )); do
		read -r -t 20 pid <&"$ready" || return 1
		contenders+=("$pid")
		(( i > 0 )) || printf '\n' >"$dir/started"
	done
	# They are about to wait; this is not exact and need not be.
	sleep "0.$(( 200 + count ))"
}

stop_contenders() {
	kill -KILL -- "-$group"
	wait "$group" 2>/dev/null
	exec {ready}>&-
	[[ ! -d $dir ]] || rm -rf -- "$dir"
}

# How often the contenders have gone to sleep so far.
naps() {
	local -a files=("${contenders[@]/#//proc/}")

	awk '/^voluntary_ctxt_switches/ { sum += $2 } END { print sum }' "${files[@]/%//status}"
}

# From unlock to the next one running.
hand_over() {
	local name=$1 place=$2 count=$3 seconds=$4
	local dir group ready before naps
	local -a contenders

	if start_contenders "$name" "$place" "$count" turns; then
		before=$(naps)
		printf '\n' >"$dir/go"
		sleep "$seconds"
		naps=$(( $(naps) - before ))
		# Wanted, got, gave: in the order of getting. Lines of a first turn are not written.
		sort -n -k 2 "$dir/log" | awk -v who="$name" -v place="$place" -v count="$count" -v naps="$naps" '
			gave && $2 >= gave { printf "wait_%s\t%s\t%s\t%d\n", count, who, place, ($2 - gave) * 1000 }
			{ gave = $3 }
			END { if (NR) printf "naps_%s\t%s\t%s\t%.1f\n", count, who, place, naps / NR }' >>"$out/samples"
	fi
	stop_contenders
}

measure_wait() {
	local round place name count

	for (( round = 0; round < 2; round++ )); do
		for place in "${!places[@]}"; do
			for count in 2 8 64 200; do
				for name in pipe mutex semaphore; do
					hand_over "$name" "$place" "$count" 1
				done
				[[ $place == tmpfs ]] || continue
				hand_over zsystem tmpfs "$count" 1
				hand_over flock tmpfs "$count" 1
				(( round == 0 )) || continue
				hand_over redis tmpfs "$count" 1
				hand_over peer tmpfs "$count" 2
			done
		done
	done
	for name in dotlockfile lockfile lckdo sem filelock peer_semaphore; do
		hand_over "$name" tmpfs 2 5
	done
}

# CPU of 200 that wait 10 s for what does not come, all kinds one after the other: nanoseconds for all 200.
measure_cpu() {
	local name pid
	local dir group ready before
	local -a contenders files

	for name in mutex semaphore queue zsystem flock redis peer; do
		if start_contenders "$name" tmpfs 200 turns; then
			before=$(cpu)
			sleep 10
			sample cpu "$name" tmpfs "$(( $(cpu) - before ))"
		fi
		stop_contenders
	done
}

# Of the contenders and of the children they have waited for, which is counted in ticks of 10 ms.
cpu() {
	local -a files=("${contenders[@]/#//proc/}")

	cat -- "${files[@]/%//schedstat}" "${files[@]/%//stat}" 2>/dev/null |
		awk 'NF == 3 { sum += $1 } NF > 3 { sum += ($16 + $17) * 1e7 } END { printf "%.0f\n", sum }'
}

# Eight that want it again at once, each holding it for 1 ms: how long does the unluckiest wait?
measure_fair() {
	local name now
	local dir group ready
	local -a contenders

	for name in mutex semaphore zsystem flock; do
		if start_contenders "$name" tmpfs 8 equal; then
			printf '\n' >"$dir/go"
			clock
			sleep 5
			# Without those that began to wait before.
			awk -v who="$name" -v go="$now" '$1 > go { printf "fair\t%s\ttmpfs\t%.0f\n", who, ($2 - $1) * 1000 }' \
				"$dir/log" >>"$out/samples"
		fi
		stop_contenders
	done
}

# PATH DEPTH LENGTH: a queue of so many items, as it is on disk.
fill_queue() {
	rm -rf -- "$1"
	work queue "$1" 1 put 1 >/dev/null
	head -c "$3" /dev/zero | tr '\0' a | { cat; echo; } | base64 -w 0 |
		awk -v depth="$2" '{ for (i = 0; i < depth; i++) print }' >"$1/data"
	printf '%s\n' "$2" >"$1/sem/counter"
	rm -f -- "$1/sem/waitlock"
}

# NAME OBJECT COUNT LENGTH: the nanoseconds of an item that goes from one process to another, while both are busy.
through() {
	local start end

	exec {get}< <(work "$1" "$2" "$3" get)
	start=$(work "$1" "$2" "$3" put "$4")
	read -r end <&"$get"
	exec {get}<&-
	[[ -z $start || -z $end ]] || printf '%s\n' "$(( (end - start) * 1000 / $3 ))"
}

# NAME PLACE LENGTH DEPTH MANY OBJECT MICROSECONDS
put_and_get() {
	local put get

	read -r put get < <(work "$1" "$6" "$7" queue "$3" "$5" "$4")
	[[ -n $get ]] || return
	sample "put_$3_$4_$5" "$1" "$2" "$(( put / $5 ))"
	sample "get_$3_$4_$5" "$1" "$2" "$(( get / $5 ))"
}

measure_queue() {
	local round place dir length depth many

	for place in "${!places[@]}"; do
		dir=${places[$place]}
		# 1,000,000 items of 4 KiB are 5.5 GB, 200,000 of 1 MiB are 280 GB: not on anybody's tmpfs.
		for length in 40 4096 1048576; do
			for depth in 10 1000 200000 1000000; do
				(( length * depth <= 1100000000 )) || continue
				fill_queue "$dir/queue" "$depth" "$length"
				for (( round = 0; round < 5; round++ )); do
					put_and_get queue "$place" "$length" "$depth" 1 "$dir/queue" 40000
					many=$(( length <= 40 ? 500 : length <= 4096 ? 50 : 5 ))
					put_and_get queue "$place" "$length" "$depth" "$many" "$dir/queue" 40000
					put_and_get colon "$place" "$length" "$depth" 1 none 10000
					for what in put get; do
						sample "${what}_${length}_${depth}_1" limit "$place" \
							"$(limit "$what" "$dir/queue" "$(( depth < 200 ? 10 : 200 ))" "$length")"
					done
					(( round < 3 )) || continue
					sample "through_${length}_$depth" queue "$place" \
						"$(through queue "$dir/queue" "$(( length > 4096 ? 20 : 1000 ))" "$length")"
				done
				[[ $place == tmpfs ]] || continue
				(( depth > 1000 && length == 40 )) || (( depth == 10 )) || continue
				fill_queue "$dir/peer" "$depth" "$length"
				(( length > 100000 )) || put_and_get peer_queue "$place" "$length" "$depth" 1 "$dir/peer" 1
				rm -rf -- "$dir/peer"
			done
			rm -rf -- "$dir/queue"
		done
	done
	for (( round = 0; round < 3; round++ )); do
		dir=${places[tmpfs]}
		for length in 40 4096; do
			sample "through_${length}_10" pipe_queue tmpfs "$(through pipe_queue "$dir/pipe" 2000 "$length")"
			sample "through_${length}_10" redis tmpfs "$(through redis "redis$length" 30 "$length")"
			sample "through_${length}_10" peer_queue tmpfs "$(through peer_queue "$dir/peer" 10 "$length")"
			put_and_get pipe_queue tmpfs "$length" 10 1 "$dir/pipe" 20000
			put_and_get redis tmpfs "$length" 10 1 redis 40000
		done
		put_and_get nq tmpfs 40 10 1 "$dir/nq" 40000
	done
	measure_memory
}

# What a shell grows by, in KiB, over 20,000 puts and gets at a depth of 1,000,000.
measure_memory() {
	fill_queue "${places[tmpfs]}/queue" 1000000 40
	sample memory queue tmpfs "$(bash -c '
		size() { while read -r key value _; do [[ $key != VmRSS: ]] || printf "%s\n" "$value"; done <"/proc/$$/status"; }
		. "$1/shell/interlock.sh"
		for (( i = 0; i < 100; i++ )); do queue_put "$2" x; queue_get -v x "$2"; done
		before=$(size)
		for (( i = 0; i < 20000; i++ )); do queue_put "$2" x; queue_get -v x "$2"; done
		printf "%s\n" "$(( $(size) - before ))"' bash "$root" "${places[tmpfs]}/queue")"
}

# NAME COMMAND…: the nanoseconds of running it to its end.
run_time() {
	local name=$1 i now start

	shift
	clock
	start=$now
	for (( i = 0; i < 5; i++ )); do
		"$@" >/dev/null 2>>"$out/errors" || return
	done
	clock
	sample start "$name" tmpfs "$(( (now - start) * 200 ))"
}

# shellcheck disable=SC2016 # code for the shells that are started
measure_start() {
	local round dir=${places[tmpfs]} lock='mutex_lock "$2"; mutex_unlock "$2"'

	for (( round = 0; round < 11; round++ )); do
		run_time bash bash -c : bash
		run_time load bash -c '. "$1/shell/interlock.sh"' bash "$root"
		run_time load_bare bash -c 'enable -f "$INTERLOCK_LIB" mutex_lock mutex_unlock' bash
		run_time load_lock bash -c '. "$1/shell/interlock.sh"; '"$lock" bash "$root" "$dir/start"
		run_time flock bash -c 'exec 9>>"$1"; flock 9; flock -u 9' bash "$dir/start.flock"
		run_time peer bash -c '. "$1/tests/peer/peer.bash"; peer_'"${lock/; /; peer_}" bash "$root" "$dir/start"
		shell_of zsystem && run_time zsh zsh -fc : &&
			run_time zsystem zsh -fc 'zmodload zsh/system; : >>"$1"; zsystem flock -f fd "$1"; zsystem flock -u "$fd"' \
				zsh "$dir/start.zsystem"
		leave_after waited 'mutex_lock "$object" 0.002'
		leave_after slept 'read -r -t 0.002 <&"$idle"'
	done
}

# NAME CODE: the nanoseconds from the end of a subshell's last command to its parent.
leave_after() {
	local start now

	# shellcheck disable=SC2016
	start=$(bash -c '
		. "$1/tests/bench/shells.sh"; . "$1/shell/interlock.sh"
		object=$2/leave
		mkfifo "$object.idle"; exec {idle}<>"$object.idle"; rm "$object.idle"
		mutex_lock "$object"
		for (( i = 0; i < 5; i++ )); do
			exec {end}< <(eval "$3"; clock; printf "%s\n" "$now")
			child=$!
			read -r start <&"$end"
			wait "$child"
			clock
			exec {end}<&-
			printf "%s\n" "$(( (now - start) * 1000 ))"
		done
		mutex_unlock "$object"' bash "$root" "$dir" "$2" 2>>"$out/errors" | sort -n | sed -n 3p)
	sample leave "$1" tmpfs "$start"
}
