//go:build linux

package bridge

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/cni"
)

func TestComment(t *testing.T) {
	for line, want := range map[string]string{
		`-A POSTROUTING -s 10.1.0.0/24 ! -d 10.0.0.0/8 -m comment --comment "planekit:br0:x" -j MASQUERADE`: "planekit:br0:x",
		`-A FORWARD -i br0 -m comment --comment planekit:br0:forward-i -j ACCEPT`:                           "planekit:br0:forward-i",
		`-A FORWARD -m comment --comment`: "",
		`-P FORWARD ACCEPT`:               "",
		``:                                "",
	} {
		if got := comment(line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	if strings.HasPrefix(prefix("br10"), prefix("br1")) {
		t.Error("rules of br10 look like those of br1")
	}
}

func TestPrefixes(t *testing.T) {
	var p Prefixes
	if err := json.Unmarshal([]byte(`"10.244.7.0/16, fd00::/48"`), &p); err != nil {
		t.Fatal(err)
	}
	if data, err := json.Marshal(p); err != nil || string(data) != `"10.244.0.0/16,fd00::/48"` {
		t.Errorf("json.Marshal(%v) = %s, %v, want \"10.244.0.0/16,fd00::/48\"", p, data, err)
	}
	own := netip.MustParsePrefix("192.0.2.0/24")
	if got := p.of(own.Addr(), own); got != netip.MustParsePrefix("10.244.0.0/16") {
		t.Error(got)
	}
	if got := p[1:].of(own.Addr(), own); got != own {
		t.Error(got)
	}
	for _, bad := range []string{`7`, `"10.0.0.0"`, `["10.0.0.0/8"]`} {
		if json.Unmarshal([]byte(bad), &p) == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestDefaultRouteReplacesOthers(t *testing.T) {
	ips := []cni.IP{
		{Address: netip.MustParsePrefix("10.1.0.2/24"), Gateway: netip.MustParseAddr("10.1.0.1")},
		{Address: netip.MustParsePrefix("fd00::2/64"), Gateway: netip.MustParseAddr("fd00::1")},
	}
	routes := append(defaultRoutes(ips), withoutDefault([]cni.Route{
		{Dst: netip.MustParsePrefix("0.0.0.0/0"), GW: netip.MustParseAddr("10.1.0.9")},
		{Dst: netip.MustParsePrefix("172.16.0.0/12")},
	})...)
	var got []string
	for _, r := range routes {
		got = append(got, r.Dst.String()+" "+r.GW.String())
	}
	if want := []string{"0.0.0.0/0 10.1.0.1", "::/0 fd00::1", "172.16.0.0/12 invalid IP"}; !slices.Equal(got, want) {
		t.Errorf("routes %q, want %q", got, want)
	}
}

func FuzzPrefixes(f *testing.F) {
	f.Add(`"10.0.0.0/8,fd00::/48"`)
	f.Fuzz(func(t *testing.T, s string) {
		var p, again Prefixes
		if json.Unmarshal([]byte(s), &p) != nil {
			return
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &again); err != nil || !slices.Equal(p, again) {
			t.Errorf("%s became %v, then %v, %v", s, p, again, err)
		}
	})
}

func FuzzComment(f *testing.F) {
	f.Add(`-A X -m comment --comment "planekit:a:b" -j ACCEPT`)
	f.Fuzz(func(t *testing.T, line string) {
		if c := comment(line); strings.ContainsAny(c, " \t\n") {
			t.Errorf("%q has comment %q", line, c)
		}
	})
}
