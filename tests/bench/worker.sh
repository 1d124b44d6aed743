#!/usr/bin/env bash
# One competitor, alone, in one process; for bash and zsh.
#
#   worker.sh NAME OBJECT MICROSECONDS pair                    prints the nanoseconds of a take and give
#   worker.sh NAME OBJECT MICROSECONDS queue LENGTH MANY DEPTH prints those of a put and of a get, MANY items of LENGTH each
#   worker.sh NAME OBJECT COUNT put|get LENGTH                 prints the microsecond at which it began, or ended
set -u
root=${0%/tests/bench/*}
name=$1
object=$2
budget=$3
test=$4

# shellcheck source=tests/bench/shells.sh
. "$root/tests/bench/shells.sh"
# shellcheck source=tests/bench/competitors.sh
. "$root/tests/bench/competitors.sh"

# CODE…: the nanoseconds of one of each, in `each`. Blocks of each in turn, of at most `most`, for `budget` microseconds.
measure() {
	local -i block=1 count=0 all=0 n=0 i=0
	local -a sums=()
	local start code

	for code in "$@"; do
		# No call and no parsing inside the loop.
		eval "block_$n() { for (( i = 0; i < block; i++ )); do $code; done; }"
		sums+=(0)
		n+=1
	done
	while (( all < budget )); do
		for (( n = 0; n < $#; n++ )); do
			clock
			start=$now
			"block_$n"
			clock
			sums[n]=$(( sums[n] + now - start ))
			all+=$(( now - start ))
		done
		count+=block
		if (( all < budget / 8 && block < most )); then
			# That was to find out how many.
			block=$(( block * 4 < most ? block * 4 : most ))
			all=0
			count=0
			for (( n = 0; n < $#; n++ )); do
				sums[n]=0
			done
		fi
	done
	each=()
	for (( n = 0; n < $#; n++ )); do
		each+=($(( sums[n] * 1000 / count )))
	done
}

prepare_items() {
	local i

	printf -v item '%0*d' "$1" 0
	for (( i = 0; i < $2; i++ )); do
		items+=("$item")
	done
}

typeset -a each items
# The semaphore of a pair has tokens left: its gate stays open.
# shellcheck disable=SC2034 # for setup
tokens=1000000
most=1000000
eval "${setup[$name]-}"

case $test in
pair)
	measure "${pair[$name]-${take[$name]}; ${give[$name]}}"
	printf '%s\n' "${each[*]}"
	;;
queue)
	prepare_items "$5" "$6"
	# The depth stays what it is.
	most=$(( $7 < $6 * 10 ? 10 : $7 / $6 ))
	(( most < 1000 )) || most=1000
	if (( $6 > 1 )); then
		measure "${put_many[$name]}" "${get_many[$name]}"
	else
		measure "${put[$name]}" "${get[$name]}"
	fi
	printf '%s\n' "${each[*]}"
	;;
put)
	prepare_items "$5" 1
	clock
	printf '%s\n' "$now"
	eval "for (( i = 0; i < budget; i++ )); do ${put[$name]}; done"
	;;
get)
	eval "for (( i = 0; i < budget; i++ )); do ${get[$name]}; done"
	clock
	printf '%s\n' "$now"
	;;
esac
