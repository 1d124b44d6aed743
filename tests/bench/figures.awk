# Reads samples sorted by figure, who, place and value; for table.awk and chart.awk.
BEGIN { FS = "\t" }

{
	key = $1 SUBSEP $2 SUBSEP $3
	value[key, ++count[key]] = $4
}

# The value below which are SHARE of the samples; "" without any.
function quantile(figure, who, place, share,   key, n) {
	key = figure SUBSEP who SUBSEP place
	n = count[key]
	return n ? value[key, int((n - 1) * share) + 1] : ""
}

function median(figure, who, place) {
	return quantile(figure, who, place, 0.5)
}

# Microseconds with what can be told.
function short(number) {
	return sprintf(number < 10 ? "%.2f" : number < 100 ? "%.1f" : "%.0f", number)
}

# Nanoseconds for people.
function time(ns) {
	if (ns == "") return "–"
	if (ns < 1e6) return short(ns / 1e3) " µs"
	if (ns < 1e9) return short(ns / 1e6) " ms"
	return short(ns / 1e9) " s"
}
