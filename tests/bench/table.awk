# The table, from the functions of figures.awk: for each place the limit, Interlock and the ratio, then the others.

function ratio(ours, limit) {
	return ours != "" && limit > 0 ? sprintf("%.2f", ours / limit) : "–"
}

function others(figure, names,   i, n, name, text, ns) {
	n = split(names, name, " ")
	for (i = 1; i <= n; i++) {
		ns = median(figure, name[i], "tmpfs")
		if (ns != "") text = text (text ? " · " : "") label(name[i]) " " time(ns)
	}
	return text
}

function label(name) {
	return name in labels ? labels[name] : "`" name "`"
}

function row(what, limit_tmpfs, ours_tmpfs, limit_disk, ours_disk, rest) {
	printf "| %s | %s | %s | %s | %s | %s | %s | %s |\n", what, time(limit_tmpfs), time(ours_tmpfs), ratio(ours_tmpfs, limit_tmpfs),
		time(limit_disk), time(ours_disk), ratio(ours_disk, limit_disk), rest
}

# The raw calls and two `:`, where there is a program for them.
function pair_row(what, who, limit, rest,   place, calls, bound) {
	for (place in places) {
		calls = median("pair", limit, place)
		bound[place] = calls == "" ? "" : calls + median("pair", "colon", place)
	}
	row(what, bound["tmpfs"], median("pair", who, "tmpfs"), bound["disk"], median("pair", who, "disk"), others("pair", rest))
}

# NAMES: the others, each with all numbers it has.
function wait_row(what, who, names,   i, n, name, rest, values) {
	n = split(names, name, " ")
	for (i = 1; i <= n; i++) {
		values = waits(name[i], "tmpfs")
		if (values != "–") rest = rest (rest ? " · " : "") label(name[i]) " " values
	}
	printf "| %s | %s | %s | %s | %s | %s | %s | %s |\n", what, waits("pipe", "tmpfs"), waits(who, "tmpfs"), wait_ratios(who, "tmpfs"),
		waits("pipe", "disk"), waits(who, "disk"), wait_ratios(who, "disk"), rest
}

function waits(who, place,   i, text, ns) {
	for (i = 1; i <= numbers; i++) {
		ns = median("wait_" waiting[i], who, place)
		if (ns != "") text = text (text ? " / " : "") time(ns)
	}
	return text == "" ? "–" : text
}

function wait_ratios(who, place,   i, text) {
	for (i = 1; i <= numbers; i++)
		text = text (text ? " / " : "") ratio(median("wait_" waiting[i], who, place), median("wait_" waiting[i], "pipe", place))
	return text
}

function three(place) {
	return time(median("pair", "wmutex", place)) " · " time(median("pair", "dirlock", place)) " · " time(median("pair", "bakery", place))
}

function two(a, b) {
	return a == "" || b == "" ? "–" : time(a) " / " time(b)
}

function queue_row(length_, depth, what, batch,   one, many, place, cell, put, get, put_limit, get_limit, through, rest) {
	one = "_" length_ "_" depth "_1"
	many = "_" length_ "_" depth "_" batch
	for (place in places) {
		put = median("put" one, "queue", place)
		if (put == "") return
		get = median("get" one, "queue", place)
		put_limit = median("put" one, "limit", place) + median("put" one, "colon", place)
		get_limit = median("get" one, "limit", place) + median("get" one, "colon", place)
		through = median("through_" length_ "_" depth, "queue", place)
		cell[place] = two(put_limit, get_limit) " | " two(put, get) " · " time(through) " · " \
			two(median("put" many, "queue", place), median("get" many, "queue", place)) " | " \
			ratio(put, put_limit) " / " ratio(get, get_limit)
	}
	rest = queue_others(one, length_, depth)
	printf "| Queue, %s, %s deep ⁴ | %s | %s | %s |\n", what, depth_name[depth], cell["tmpfs"], cell["disk"], rest
}

function queue_others(one, length_, depth,   i, n, name, text, put, get, through) {
	n = split("pipe_queue redis nq peer_queue", name, " ")
	for (i = 1; i <= n; i++) {
		put = median("put" one, name[i], "tmpfs")
		if (put == "") continue
		get = median("get" one, name[i], "tmpfs")
		through = median("through_" length_ "_" depth, name[i], "tmpfs")
		text = text (text ? "; " : "") label(name[i]) " " (name[i] == "nq" ? time(put) : two(put, get)) (through == "" ? "" : " · " time(through))
	}
	return text
}

function total(names,   i, n, name, text, ns) {
	n = split(names, name, " ")
	for (i = 1; i <= n; i++) {
		ns = median("cpu", name[i], "tmpfs")
		if (ns != "") text = text (text ? " · " : "") label(name[i]) " " time(ns)
	}
	return text
}

END {
	places["tmpfs"]; places["disk"]
	depth_name[10] = "10"; depth_name[1000] = "1,000"; depth_name[200000] = "200,000"; depth_name[1000000] = "1,000,000"
	labels["ln_rm"] = "bash's `ln`, `rm` builtins"; labels["zsystem"] = "`zsystem flock`"; labels["flock"] = "`flock`(1)"
	labels["peer"] = labels["peer_semaphore"] = labels["peer_queue"] = "pure bash"; labels["filelock"] = "Python `filelock`"
	labels["redis"] = "`redis-cli`"; labels["pipe_queue"] = "a pipe"; labels["sem"] = "GNU `sem`"; labels["nq"] = "`nq`"
	labels["mutex"] = "mutex"; labels["semaphore"] = "semaphore"; labels["queue"] = "queue"; labels["slept"] = "without a wait"
	labels["load_bare"] = "`enable -f` alone"; labels["load_lock"] = "and a first lock"; labels["zsh"] = "zsh"; labels["bash"] = "bash"

	printf "| | tmpfs: limit | Interlock | ratio | " disk ": limit | Interlock | ratio | others, on tmpfs |\n"
	print "|---|---|---|---|---|---|---|---|"
	pair_row("`mutex_lock` + `mutex_unlock` ¹", "mutex", "limit_mutex",
		"zsystem ln_rm filelock flock lckdo dotlockfile lockfile peer redis sem")
	printf "| the same of `wmutex` · `dirlock` · `bakery` | | %s | | | %s | | |\n", three("tmpfs"), three("disk")
	pair_row("`sem_wait` + `sem_post` ¹", "semaphore", "limit_semaphore", "peer_semaphore")
	numbers = split("2 8 64 200", waiting, " ")
	wait_row("Mutex changes hands, 2 / 8 / 64 / 200 waiting ²", "mutex",
		"zsystem flock redis peer lckdo filelock sem dotlockfile lockfile")
	wait_row("Token changes hands, 2 / 8 / 64 / 200 waiting ²", "semaphore", "peer_semaphore")
	printf "| Sleeps of all contenders for a hand-over, 2 · 200 waiting | | %s · %s | | | %s · %s | | pipe %s · %s |\n",
		median("naps_2", "mutex", "tmpfs"), median("naps_200", "mutex", "tmpfs"), median("naps_2", "mutex", "disk"),
		median("naps_200", "mutex", "disk"), median("naps_2", "pipe", "tmpfs"), median("naps_200", "pipe", "tmpfs")
	printf "| 8 contenders without a pause: median, longest wait | | %s, %s | | | | | %s |\n", time(median("fair", "mutex", "tmpfs")),
		time(quantile("fair", "mutex", "tmpfs", 1)), "`zsystem flock` " time(median("fair", "zsystem", "tmpfs")) ", " \
		time(quantile("fair", "zsystem", "tmpfs", 1)) " · `flock`(1) " time(median("fair", "flock", "tmpfs")) ", " \
		time(quantile("fair", "flock", "tmpfs", 1))
	printf "| CPU of 200 that wait for 10 s, together | | %s | | | | | %s |\n", total("mutex semaphore queue"),
		total("zsystem flock redis peer")
	for (depth = 10; depth <= 1000000; depth = depth == 10 ? 1000 : depth == 1000 ? 200000 : depth * 5)
		queue_row(40, depth, "40 B", 500)
	for (depth = 10; depth <= 200000; depth = depth == 10 ? 1000 : depth == 1000 ? 200000 : depth * 5)
		queue_row(4096, depth, "4 KiB", 50)
	for (depth = 10; depth <= 1000; depth = depth == 10 ? 1000 : depth * 5)
		queue_row(1048576, depth, "1 MiB", 5)
	row("A script that loads `interlock.sh` ³", median("start", "bash", "tmpfs"), median("start", "load", "tmpfs"), "", "",
		others("start", "load_bare load_lock flock zsh zsystem peer"))
	row("Leaving a subshell that has waited", median("leave", "slept", "tmpfs"), median("leave", "waited", "tmpfs"), "", "", "")
	printf "| Growth of a shell over 20,000 puts and gets | | %s KiB | | | | | the library: %.0f KiB |\n",
		median("memory", "queue", "tmpfs"), median("size", "library", "tmpfs") / 1024
	print ""
	print "Medians; ratio: Interlock to its limit."
	print "¹ Limit: the system calls that the protocol needs, in a C loop, and two `:` in bash."
	print "² From just before the release in one shell to just after the wait in another. Limit: a byte through a pipe to shells"
	print "blocked in `read`, as many as wait. Peers with fewer numbers: for 2 waiting."
	print "³ Limit: `bash -c :`."
	print "⁴ put / get one · through: put and got by two processes at once · put / get in batches, for each item. Limit: as ¹, with"
	print "one `:` given the same words."
}
