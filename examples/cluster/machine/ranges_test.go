package machine_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/planekit/planekit/examples/cluster/machine"
)

// link is a range that an address of a link is in.
func link(address string) machine.Taken {
	prefix := netip.MustParsePrefix(address)
	return machine.Taken{Prefix: prefix.Masked(), Address: prefix.Addr(), By: "link x (address " + address + ")"}
}

func route(prefix string) machine.Taken {
	return machine.Taken{Prefix: netip.MustParsePrefix(prefix), By: "route to " + prefix}
}

func TestChoose(t *testing.T) {
	for _, test := range []struct {
		name, kept string
		taken      []machine.Taken
		want       string
	}{
		{name: "nothing is taken", want: "10.244.0.0/16"},
		{name: "another bridge", taken: []machine.Taken{link("10.244.0.1/24")}, want: "10.245.0.0/16"},
		{name: "a route into it", taken: []machine.Taken{route("10.244.7.0/24")}, want: "10.245.0.0/16"},
		{name: "a route to one host", taken: []machine.Taken{route("10.244.7.7/32")}, want: "10.245.0.0/16"},
		{name: "two in a row", taken: []machine.Taken{route("10.244.0.0/16"), link("10.245.0.1/16")}, want: "10.246.0.0/16"},
		{name: "the first list is full", taken: []machine.Taken{route("10.244.0.0/14"), route("10.248.0.0/13")}, want: "10.200.0.0/16"},
		{name: "elsewhere", taken: []machine.Taken{link("192.168.0.7/24"), route("172.16.0.0/12")}, want: "10.244.0.0/16"},
		{name: "the host is in a larger network", taken: []machine.Taken{link("10.0.0.7/8")}, want: "10.244.0.0/16"},
		{name: "the host has an address in it", taken: []machine.Taken{link("10.244.9.9/8")}, want: "10.245.0.0/16"},
		{name: "kept", kept: "10.250.0.0/16", taken: []machine.Taken{link("10.251.0.1/24")}, want: "10.250.0.0/16"},
		{name: "kept, and taken meanwhile", kept: "10.250.0.0/16", taken: []machine.Taken{link("10.250.0.1/24")}, want: "10.244.0.0/16"},
	} {
		var kept netip.Prefix
		if test.kept != "" {
			kept = netip.MustParsePrefix(test.kept)
		}
		if got, err := machine.Choose(kept, test.taken); err != nil || got.String() != test.want {
			t.Errorf("%s: %v, %v, want %s", test.name, got, err, test.want)
		}
	}
	var all []machine.Taken
	for _, prefix := range machine.Candidates() {
		all = append(all, route(prefix.String()))
	}
	if got, err := machine.Choose(netip.Prefix{}, all); err == nil || !strings.Contains(err.Error(), "route to 10.244.0.0/16") {
		t.Errorf("with all taken: %v, %v", got, err)
	}
}

func TestInTheWay(t *testing.T) {
	pods := netip.MustParsePrefix("10.244.0.0/16")
	for _, test := range []struct {
		taken   machine.Taken
		blocked bool
	}{
		{link("10.244.0.1/24"), true},
		{link("10.244.0.1/8"), true},
		{link("10.0.0.1/8"), false},
		{link("10.243.255.1/16"), false},
		{route("10.244.0.0/16"), true},
		{route("10.244.128.0/17"), true},
		{route("10.240.0.0/12"), false},
	} {
		if other := machine.InTheWay(pods, []machine.Taken{test.taken}); (other != nil) != test.blocked {
			t.Errorf("%s: in the way %v, want %v", test.taken.By, other != nil, test.blocked)
		}
	}
}

func TestNames(t *testing.T) {
	id := "0123abcd"
	for node := range 300 {
		name := machine.Bridge(id, node)
		if got, ok := machine.ClusterOf(name); !ok || got != id || len(name) > 15 {
			t.Errorf("%s (%d bytes) is of %q, %v", name, len(name), got, ok)
		}
	}
	for _, other := range []string{"", "eth0", "docker0", "pk0123abcd", "pk0123abc-1", "pk0123abcde-1", "pkXYZ3abcd-1", "veth-pk0123abcd-1"} {
		if _, ok := machine.ClusterOf(other); ok {
			t.Errorf("%q is taken for a cluster's", other)
		}
	}
}

func ExampleChoose() {
	pods, err := machine.Choose(netip.Prefix{}, []machine.Taken{
		{Prefix: netip.MustParsePrefix("10.244.0.0/24"), By: "link cni0 (route to 10.244.0.0/24)"},
	})
	fmt.Println(pods, err)
	// Output: 10.245.0.0/16 <nil>
}
