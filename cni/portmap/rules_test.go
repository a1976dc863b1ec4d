//go:build linux

package portmap

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/nftables/expr"
	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/skel"
)

func parseText(t *testing.T, conf string) (*Conf, error) {
	t.Helper()
	r := &skel.Request{
		ContainerID: "c1", IfName: "eth0", Conf: skel.Conf{Name: "net"},
		Stdin: []byte(conf),
	}
	return parse(r)
}

// TestRules compares whole tables, in the syntax of nft.
func TestRules(t *testing.T) {
	const tcp = `"runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}`
	for _, test := range []struct {
		name, conf string
		addresses  []string
		link       string
		want       string
	}{
		{"IPv4", `{` + tcp + `}`, []string{"10.1.0.2/24"}, "br0", `
prerouting: fib daddr type local jump mappings
output: fib daddr type local jump mappings
mappings: meta nfproto ipv4 tcp dport 8080 ip saddr 10.1.0.0/24 meta mark set meta mark | 0x2000
mappings: meta nfproto ipv4 tcp dport 8080 ip saddr 127.0.0.0/8 meta mark set meta mark | 0x2000
mappings: meta nfproto ipv4 tcp dport 8080 dnat ip to 10.1.0.2:80
postrouting: meta nfproto ipv4 meta mark & 0x2000 == 0x2000 ip daddr 10.1.0.2 masquerade
localnet-br0: iifname "br0" meta nfproto ipv4 ip daddr 127.0.0.0/8 ct state != established,related drop`},
		{"IPv6", `{` + tcp + `,"markMasqBit":0}`, []string{"fd00::2/64"}, "", `
prerouting: fib daddr type local jump mappings
output: fib daddr type local jump mappings
mappings: meta nfproto ipv6 ip6 daddr != ::1 tcp dport 8080 ip6 saddr fd00::/64 meta mark set meta mark | 0x1
mappings: meta nfproto ipv6 ip6 daddr != ::1 tcp dport 8080 dnat ip6 to [fd00::2]:80
postrouting: meta nfproto ipv6 meta mark & 0x1 == 0x1 ip6 daddr fd00::2 masquerade`},
		{"without SNAT, both families", `{` + tcp + `,"snat":false}`, []string{"10.1.0.2/24", "fd00::2/64"}, "", `
prerouting: fib daddr type local jump mappings
output: fib daddr type local jump mappings
mappings: meta nfproto ipv4 ip daddr != 127.0.0.0/8 tcp dport 8080 dnat ip to 10.1.0.2:80
mappings: meta nfproto ipv6 ip6 daddr != ::1 tcp dport 8080 dnat ip6 to [fd00::2]:80`},
		{"addresses of the host", `{"snat":false,"runtimeConfig":{"portMappings":[
			{"hostPort":1,"containerPort":10,"protocol":"UDP","hostIP":"192.0.2.7"},
			{"hostPort":2,"containerPort":20,"protocol":"SCTP","hostIP":"2001:db8::7"},
			{"hostPort":3,"containerPort":30,"protocol":"tcp","hostIP":"0.0.0.0"},
			{"hostPort":4,"containerPort":40,"protocol":"tcp","hostIP":"::"},
			{"hostPort":5,"containerPort":50,"protocol":"tcp","hostIP":"::ffff:127.0.0.1"}]}}`, []string{"10.1.0.2/24", "fd00::2/64"}, "", `
prerouting: fib daddr type local jump mappings
output: fib daddr type local jump mappings
mappings: meta nfproto ipv4 ip daddr 192.0.2.7 udp dport 1 dnat ip to 10.1.0.2:10
mappings: meta nfproto ipv4 ip daddr != 127.0.0.0/8 tcp dport 3 dnat ip to 10.1.0.2:30
mappings: meta nfproto ipv4 ip daddr 127.0.0.1 tcp dport 5 dnat ip to 10.1.0.2:50
mappings: meta nfproto ipv6 ip6 daddr 2001:db8::7 sctp dport 2 dnat ip6 to [fd00::2]:20
mappings: meta nfproto ipv6 ip6 daddr != ::1 tcp dport 4 dnat ip6 to [fd00::2]:40`},
		{"all are masqueraded", `{` + tcp + `,"masqAll":true,"backend":"nftables"}`, []string{"10.1.0.2/24"}, "br0", `
prerouting: fib daddr type local jump mappings
output: fib daddr type local jump mappings
mappings: meta nfproto ipv4 tcp dport 8080 ip saddr 0.0.0.0/0 meta mark set meta mark | 0x2000
mappings: meta nfproto ipv4 tcp dport 8080 dnat ip to 10.1.0.2:80
postrouting: meta nfproto ipv4 meta mark & 0x2000 == 0x2000 ip daddr 10.1.0.2 masquerade
localnet-br0: iifname "br0" meta nfproto ipv4 ip daddr 127.0.0.0/8 ct state != established,related drop`},
		{"conditions", `{` + tcp + `,"snat":false,"conditionsV4":["!","-d","192.0.2.9/24","-s","10.0.0.1"],
			"conditionsV6":["!","--in-interface","eth7"]}`, []string{"10.1.0.2/24", "fd00::2/64"}, "", `
prerouting: fib daddr type local jump mappings
output: fib daddr type local jump mappings
mappings: meta nfproto ipv4 ip daddr != 127.0.0.0/8 ip daddr != 192.0.2.0/24 ip saddr 10.0.0.1 tcp dport 8080 dnat ip to 10.1.0.2:80
mappings: meta nfproto ipv6 ip6 daddr != ::1 iifname != "eth7" tcp dport 8080 dnat ip6 to [fd00::2]:80`},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := parseText(t, test.conf)
			if err != nil {
				t.Fatal(err)
			}
			var addresses []netip.Prefix
			for _, a := range test.addresses {
				addresses = append(addresses, netip.MustParsePrefix(a))
			}
			var got strings.Builder
			for _, r := range c.rules(addresses, test.link).rules {
				fmt.Fprintf(&got, "\n%s: %s", r.chain, r.text())
			}
			if got.String() != test.want {
				t.Errorf("got %s\nwant %s", got.String(), test.want)
			}
		})
	}
}

// TestBadInput: every one is refused with the code of the specification, and names what is wrong.
func TestBadInput(t *testing.T) {
	mapping := func(s string) string { return `{"runtimeConfig":{"portMappings":[` + s + `]}}` }
	for conf, want := range map[string]string{
		`{"scope":"../x"}`: `7 scope`,
		`{"scope":"` + strings.Repeat("a", 201) + `"}`:                                               `7 scope of 201 bytes`,
		`{"markMasqBit":32}`:                                                                         `7 markMasqBit 32`,
		`{"markMasqBit":-1}`:                                                                         `7 markMasqBit -1`,
		`{"externalSetMarkChain":"KUBE-MARK-MASQ"}`:                                                  `7 externalSetMarkChain`,
		`{"masqAll":true,"snat":false}`:                                                              `7 masqAll needs snat`,
		`{"backend":"iptables"}`:                                                                     `7 backend "iptables" is not supported`,
		`{"snat":"yes"}`:                                                                             `6 configuration`,
		`{"conditionsV4":["-d"]}`:                                                                    `7 conditions end with "-d"`,
		`{"conditionsV4":["!"]}`:                                                                     `7 conditions end with "!"`,
		`{"conditionsV4":["-m","owner"]}`:                                                            `7 condition "-m" is not supported`,
		`{"conditionsV4":["-d","fd00::1"]}`:                                                          `7 condition -d: "fd00::1" is of the other family`,
		`{"conditionsV6":["-s","::ffff:1.2.3.4"]}`:                                                   `7 condition -s: "::ffff:1.2.3.4" is not an address`,
		`{"conditionsV4":["-s","10.0.0.0/8,1.1.1.1"]}`:                                               `7 condition -s: "10.0.0.0/8,1.1.1.1" is not`,
		`{"conditionsV4":["-i","../../../etc"]}`:                                                     `7 condition -i: invalid interface name`,
		mapping(`{"hostPort":0,"containerPort":80,"protocol":"tcp"}`):                                `7 portMappings[0]: hostPort 0`,
		mapping(`{"hostPort":65536,"containerPort":80,"protocol":"tcp"}`):                            `7 portMappings[0]: hostPort 65536`,
		mapping(`{"hostPort":80,"containerPort":-1,"protocol":"tcp"}`):                               `7 portMappings[0]: containerPort -1`,
		mapping(`{"hostPort":80,"containerPort":80,"protocol":"icmp"}`):                              `7 portMappings[0]: protocol "icmp"`,
		mapping(`{"hostPort":80,"containerPort":80}`):                                                `7 portMappings[0]: protocol ""`,
		mapping(`{"hostPort":80,"containerPort":80,"protocol":"tcp","hostIP":"fe80::1%eth0"}`):       `7 portMappings[0]: hostIP "fe80::1%eth0"`,
		mapping(`{"hostPort":80,"containerPort":80,"protocol":"tcp","hostIP":"host; flush table"}`):  `7 portMappings[0]: hostIP "host; flush table"`,
		mapping(`{"hostPort":"80"}`):                                                                 `6 configuration`,
		mapping(strings.Repeat(`{"hostPort":80,"containerPort":80,"protocol":"tcp"},`, 2000) + `{}`): `7 2001 port mappings`,
	} {
		_, err := parseText(t, conf)
		e, ok := errors.AsType[*cni.Error](err)
		if !ok || !strings.HasPrefix(fmt.Sprintf("%d %s", e.Code, e.Msg), want) {
			t.Errorf("%.80s: %v, want %s", conf, err, want)
		}
	}
}

func TestContainerAddresses(t *testing.T) {
	index := func(i int) *int { return &i }
	result := &cni.Result{
		Interfaces: []cni.Interface{{Name: "br0"}, {Name: "eth0", Sandbox: "/ns"}, {Name: "eth1", Sandbox: "/ns"}, {Name: "eth0"}},
		IPs: []cni.IP{
			{Interface: index(0), Address: netip.MustParsePrefix("10.0.0.1/24")},
			{Interface: index(2), Address: netip.MustParsePrefix("10.0.0.2/24")},
			{Interface: index(3), Address: netip.MustParsePrefix("10.0.0.3/24")},
			{Interface: index(1), Address: netip.MustParsePrefix("fd00::4/64")},
			{Interface: index(1), Address: netip.MustParsePrefix("10.0.0.5/24")},
			{Interface: index(1), Address: netip.MustParsePrefix("10.0.0.6/24")},
			{Address: netip.MustParsePrefix("::ffff:10.0.0.7/120")},
		},
	}
	if got := fmt.Sprint(containerAddresses(result, "eth0")); got != "[10.0.0.5/24 fd00::4/64]" {
		t.Errorf("addresses %s", got)
	}
}

// TestTableNames: different attachments have different tables, and a scope never owns the tables of
// another.
func TestTableNames(t *testing.T) {
	seen := map[string]string{}
	for _, a := range [][4]string{
		{"s", "n", "c", "eth0"}, {"s", "n", "c", "eth1"}, {"s", "n", "ceth0", "x"}, {"s", "nc", "e", "th0"},
		{"s2", "n", "c", "eth0"}, {"s.", "n", "c", "eth0"}, {"S", "n", "c", "eth0"}, {strings.Repeat("s", maxScope), "n", "c", "eth0"},
	} {
		name := tableName(a[0], a[1], a[2], a[3])
		if other, ok := seen[name]; ok {
			t.Errorf("%v and %s have the table %s", a, other, name)
		}
		seen[name] = fmt.Sprint(a)
		if scopeOf(name) != a[0] || len(name) > 255 {
			t.Errorf("%s (%d bytes) is of scope %q, want %q", name, len(name), scopeOf(name), a[0])
		}
	}
	for _, other := range []string{"", "nat", "planekit-portmap", "planekit-portmap2/x/y", "x/planekit-portmap/y/z"} {
		if scope := scopeOf(other); scope != "" {
			t.Errorf("%q is taken for a table of %q", other, scope)
		}
	}
}

// TestComment: rules of different text have different comments, also beyond the bound.
func TestComment(t *testing.T) {
	long := func(last string) rule {
		return rule{parts: []part{{text: strings.Repeat("x", 300)}, {text: last}}}
	}
	if a, b := string(long("a").comment()), string(long("b").comment()); a == b || len(a) > maxComment+3 {
		t.Errorf("%q and %q", a, b)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp","hostIP":"::"}]}}`)
	f.Add(`{"conditionsV4":["!","-d","10.0.0.0/8","-i","eth0"],"snat":false,"markMasqBit":31,"scope":"x"}`)
	f.Fuzz(func(t *testing.T, conf string) {
		c, err := parseText(t, conf)
		if err != nil {
			return
		}
		all := c.rules([]netip.Prefix{netip.MustParsePrefix("10.1.0.2/24"), netip.MustParsePrefix("fd00::2/64")}, "br0")
		for _, r := range all.rules {
			for i, p := range r.parts {
				if p.text == "" {
					t.Errorf("the part %d of %d of the rule %q has no text, and the code %v", i, len(r.parts), r.comment(), p.code)
				}
				for _, e := range p.code {
					if _, err := expr.Marshal(1, e); err != nil {
						t.Errorf("Marshal(%T) of the part %q = %v, want nil", e, p.text, err)
					}
				}
			}
		}
	})
}

func FuzzParseChain(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x08\x00\x01\x00abc\x00\x08\x00\x03\x00def\x00"))
	f.Add([]byte("0000\t\x000000000"))
	f.Fuzz(func(t *testing.T, message []byte) {
		c, err := parseChain(message)
		if err == nil && (strings.HasSuffix(c.table, "\x00") || strings.HasSuffix(c.name, "\x00")) {
			t.Errorf("parseChain(%q) = %q, want names without a NUL at the end", message, c)
		}
	})
}
