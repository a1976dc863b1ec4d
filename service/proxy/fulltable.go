package proxy

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// fullTable notices that the kernel's table of connections is full: then it drops new ones, of services
// and all others.
type fullTable struct {
	said time.Time
}

const (
	// nearlyFull is the share of the table that is in use, in percent, when it is said.
	nearlyFull = 95
	// sayAgain is how long nothing is said again.
	sayAgain = time.Minute
)

func (f *fullTable) check(p *Proxy) {
	if p.kernel == nil {
		return
	}
	count, most := readNumber("/proc/sys/net/netfilter/nf_conntrack_count"), readNumber("/proc/sys/net/netfilter/nf_conntrack_max")
	if most == 0 {
		return // not this kernel
	}
	p.Meters.connections(int(count), int(most))
	if !f.isNews(count, most, time.Now()) {
		return
	}
	p.Log.Error(nil, "the kernel's table of connections is nearly full, and it drops new connections when it is: raise net.netfilter.nf_conntrack_max",
		"connections", count, "max", most)
}

// isNews reports whether the table is nearly full and that was not said for a while.
func (f *fullTable) isNews(count, most uint64, now time.Time) bool {
	if count*100 < most*nearlyFull || now.Sub(f.said) < sayAgain {
		return false
	}
	f.said = now
	return true
}

// readNumber returns the number in a file, and 0 if there is none.
func readNumber(path string) uint64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	return n
}
