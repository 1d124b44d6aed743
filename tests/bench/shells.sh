# shellcheck shell=bash disable=SC2034
# What the workers need to run in both bash and zsh; and `clock`: microseconds since the epoch, in `now`.
if [[ -n ${ZSH_VERSION-} ]]; then
	setopt ksh_arrays sh_word_split
	zmodload zsh/datetime
	clock() {
		# shellcheck disable=SC2004 # a float
		printf -v now %.0f $(( EPOCHREALTIME * 1000000 ))
	}
else
	clock() {
		now=${EPOCHREALTIME/[.,]/}
	}
fi
