package dns

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

// maxNameservers bounds the nameservers that are used, as in the C library.
const maxNameservers = 3

// ParseResolvers returns the nameservers of a resolv.conf, at most three, for [Config.Upstreams]. Lines
// that are no nameservers are skipped.
func ParseResolvers(r io.Reader) ([]netip.AddrPort, error) {
	var all []netip.AddrPort
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" || len(all) == maxNameservers {
			continue
		}
		a, err := netip.ParseAddr(fields[1])
		if err != nil {
			return nil, fmt.Errorf("line %d: nameserver: %q is not an address", n, fields[1])
		}
		all = append(all, netip.AddrPortFrom(a, 53))
	}
	return all, lines.Err()
}
