# The chart, from the functions of figures.awk: bars on a logarithmic scale, readable on light and dark ground.

function bar(name, ns, class,   width) {
	if (ns == "") return
	width = left(ns) - 190
	body = body sprintf("<text x='182' y='%d' class='name'>%s</text><rect x='190' y='%d' width='%.1f' height='13' rx='2' class='%s'/>" \
		"<text x='%.1f' y='%d'>%s</text>\n", y + 11, name, y, width, class, 196 + width, y + 11, time(ns))
	y += 18
}

# 1 µs to 1 s.
function left(ns,   decades) {
	decades = log(ns / 1e3) / log(10)
	return 190 + 80 * (decades < 0.05 ? 0.05 : decades)
}

function group(title) {
	y += 14
	body = body sprintf("<text x='10' y='%d' class='title'>%s</text>\n", y + 4, title)
	y += 14
}

function pair_bar(name, who) {
	bar(name, median("pair", who, "tmpfs"), "other")
}

function sum(a, b) {
	return a == "" || b == "" ? "" : a + b
}

END {
	y = 4
	group("Lock and unlock, nobody waits")
	bar("limit", sum(median("pair", "limit_mutex", "tmpfs"), median("pair", "colon", "tmpfs")), "limit")
	bar("Interlock mutex", median("pair", "mutex", "tmpfs"), "ours")
	pair_bar("zsh: zsystem flock", "zsystem"); pair_bar("bash builtins ln, rm", "ln_rm"); pair_bar("Python filelock", "filelock")
	pair_bar("flock(1)", "flock"); pair_bar("lckdo", "lckdo"); pair_bar("dotlockfile", "dotlockfile"); pair_bar("lockfile", "lockfile")
	pair_bar("pure bash", "peer"); pair_bar("redis-cli", "redis"); pair_bar("GNU sem", "sem")

	n = split("2 200", waiting, " ")
	for (i = 1; i <= n; i++) {
		figure = "wait_" waiting[i]
		group("From unlock to the next one running, " waiting[i] " waiting")
		bar("limit: a pipe", median(figure, "pipe", "tmpfs"), "limit")
		bar("Interlock mutex", median(figure, "mutex", "tmpfs"), "ours")
		bar("Interlock semaphore", median(figure, "semaphore", "tmpfs"), "ours")
		bar("zsh: zsystem flock", median(figure, "zsystem", "tmpfs"), "other")
		bar("flock(1)", median(figure, "flock", "tmpfs"), "other")
		bar("lckdo", median(figure, "lckdo", "tmpfs"), "other")
		bar("redis-cli", median(figure, "redis", "tmpfs"), "other")
		bar("Python filelock", median(figure, "filelock", "tmpfs"), "other")
		bar("GNU sem", median(figure, "sem", "tmpfs"), "other")
		bar("pure bash", median(figure, "peer", "tmpfs"), "other")
		bar("dotlockfile", median(figure, "dotlockfile", "tmpfs"), "other")
	}

	n = split("10 1000000", depth, " ")
	for (i = 1; i <= n; i++) {
		figure = "_40_" depth[i] "_1"
		group("Queue: put and get an item of 40 bytes, " (i == 1 ? "10" : "1,000,000") " deep")
		bar("limit", sum(median("put" figure, "limit", "tmpfs"), median("get" figure, "limit", "tmpfs")), "limit")
		bar("Interlock", sum(median("put" figure, "queue", "tmpfs"), median("get" figure, "queue", "tmpfs")), "ours")
		bar("Interlock, 500 at once", sum(median("put_40_" depth[i] "_500", "queue", "tmpfs"),
			median("get_40_" depth[i] "_500", "queue", "tmpfs")), "ours")
		bar("a pipe", sum(median("put" figure, "pipe_queue", "tmpfs"), median("get" figure, "pipe_queue", "tmpfs")), "other")
		bar("redis-cli", sum(median("put" figure, "redis", "tmpfs"), median("get" figure, "redis", "tmpfs")), "other")
		bar("pure bash", sum(median("put" figure, "peer_queue", "tmpfs"), median("get" figure, "peer_queue", "tmpfs")), "other")
	}

	y += 8
	for (decade = 0; decade <= 6; decade++) {
		x = 190 + 80 * decade
		lines = lines sprintf("<line x1='%d' y1='10' x2='%d' y2='%d' class='grid'/><text x='%d' y='%d' class='axis'>%s</text>\n",
			x, x, y, x, y + 14, time(10 ^ (decade + 3)))
	}
	printf "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 760 %d' font-family='sans-serif' font-size='12'>\n", y + 22
	print "<title>Interlock and others: time on a logarithmic scale, shorter is better (tmpfs)</title>"
	print "<style>text{fill:#1f2328}.name{text-anchor:end}.title{font-weight:bold}.axis{text-anchor:middle;font-size:10px}" \
		".grid{stroke:#8884;stroke-width:1}.ours{fill:#0a7d4f}.other{fill:#8c959f}.limit{fill:none;stroke:#8c959f;stroke-dasharray:3 2}" \
		"@media(prefers-color-scheme:dark){text{fill:#e6edf3}.ours{fill:#3fb97f}.other{fill:#6e7681}}</style>"
	printf "%s%s</svg>\n", lines, body
}
