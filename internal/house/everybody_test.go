package house

// everybodyMay lists what every package may import. It imports nothing itself.
var everybodyMay = []allowance{
	{"localcache", "the one contract of local caches, which those who read and those who fill one share"},
	{"internal/budget", "all steps of a request share one budget"},
	{"internal/selector", "selectors of labels are compiled in one way"},
}
