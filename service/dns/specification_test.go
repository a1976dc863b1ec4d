package dns

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// exampleWorld has the objects of the examples in the specification.
func exampleWorld() *world {
	https := []discoveryv1.EndpointPort{endpointPort("https", 443)}
	unready := service("default/unready", "None", servicePort("https", 443))
	unready.Spec.PublishNotReadyAddresses = true
	udp := servicePort("dns", 53)
	udp.Protocol = corev1.ProtocolUDP
	return newWorld(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "empty"}},
		service("default/kubernetes", "10.3.0.1", servicePort("https", 443)),
		service("default/plain", "10.3.0.2", servicePort("", 80), udp),
		service("default/dual", "10.3.0.3,fd00::3", servicePort("https", 443)),
		slice("default/kubernetes-1", "kubernetes", https, endpoint("10.9.0.1", "", true)),
		service("default/headless", "None", servicePort("https", 443)),
		slice("default/headless-1", "headless", https, endpoint("10.3.0.100", "my-pet", true), endpoint("10.3.0.101", "My-Pet-2", true),
			endpoint("10.3.0.102", "", true), endpoint("10.3.0.103", "not-ready", false)),
		slice("default/headless-2", "headless", https, endpoint("fd00::1:0", "", true), endpoint("fd00::9", "my-pet", true)),
		service("default/none-ready", "None", servicePort("https", 443)),
		slice("default/none-ready-1", "none-ready", https, endpoint("10.3.0.104", "", false)),
		unready,
		slice("default/unready-1", "unready", https, endpoint("10.3.0.105", "late", false)),
		service("default/portless", "None"),
		slice("default/portless-1", "portless", nil, endpoint("10.3.0.106", "", true)),
		external("default/foo", "www.example.com"), external("default/inside", "kubernetes.default.svc.cluster.local"),
		external("default/loop-a", "loop-b.default.svc.cluster.local"), external("default/loop-b", "loop-a.default.svc.cluster.local"),
		external("default/address", "192.0.2.7"),
		slice("default/orphan-1", "orphan", https, endpoint("10.3.0.107", "", true)),
	)
}

// TestSpecification asks the questions of the specification, and those at its edges. A name without a
// last dot is below svc.cluster.local.
func TestSpecification(t *testing.T) {
	s := exampleWorld().start(t, nil)
	<-s.Ready()
	const zone, nx = "svc.cluster.local.", "NXDOMAIN"
	for _, c := range []struct{ name, kind, want string }{
		// 2.2
		{"dns-version.cluster.local.", "TXT", `NOERROR; dns-version.cluster.local. TXT "1.1.0"`},
		{"dns-version.cluster.local.", "A", "NOERROR"},
		// 2.3.1
		{"kubernetes.default", "A", "NOERROR; kubernetes.default. A 10.3.0.1"},
		{"kubernetes.default", "AAAA", "NOERROR"},
		{"kubernetes.default", "MX", "NOERROR"},
		{"kubernetes.default", "ANY", "NOERROR"},
		{"KuberNetes.Default", "A", "NOERROR; KuberNetes.Default. A 10.3.0.1"},
		{"dual.default", "A", "NOERROR; dual.default. A 10.3.0.3"},
		{"dual.default", "AAAA", "NOERROR; dual.default. AAAA fd00::3"},
		{"absent.default", "A", nx},
		{"absent.default", "AAAA", nx},
		{"orphan.default", "A", nx},
		// 2.3.2
		{"_https._tcp.kubernetes.default", "SRV", "NOERROR; _https._tcp.kubernetes.default. SRV 0 100 443 kubernetes.default."},
		{"_https._tcp.kubernetes.default", "A", "NOERROR; _https._tcp.kubernetes.default. A 10.3.0.1"},
		{"_https._udp.kubernetes.default", "SRV", nx},
		{"_http._tcp.kubernetes.default", "SRV", nx},
		{"https.tcp.kubernetes.default", "SRV", nx},
		{"_._tcp.kubernetes.default", "SRV", nx},
		{"_x._https._tcp.kubernetes.default", "SRV", nx},
		{"_tcp.kubernetes.default", "SRV", "NOERROR"},
		{"_udp.kubernetes.default", "SRV", nx},
		{"_dns._udp.plain.default", "SRV", "NOERROR; _dns._udp.plain.default. SRV 0 100 53 plain.default."},
		{"_tcp.plain.default", "SRV", nx}, // the port has no name
		{"plain.default", "SRV", "NOERROR; plain.default. SRV 0 50 53 plain.default.; plain.default. SRV 0 50 80 plain.default."},
		// 2.3.3
		{"1.0.3.10.in-addr.arpa.", "PTR", "NOERROR; 1.0.3.10.in-addr.arpa. PTR kubernetes.default."},
		{"1.0.3.10.in-addr.arpa.", "A", "NOERROR"},
		{"99.0.3.10.in-addr.arpa.", "PTR", nx},
		{"1.0.9.10.in-addr.arpa.", "PTR", "NOERROR; 1.0.9.10.in-addr.arpa. PTR 10-9-0-1.kubernetes.default."},
		{"3.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", "PTR",
			"NOERROR; 3.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. PTR dual.default."},
		// 2.4.1
		{"headless.default", "A", "NOERROR; headless.default. A 10.3.0.100; headless.default. A 10.3.0.101; headless.default. A 10.3.0.102"},
		{"headless.default", "AAAA", "NOERROR; headless.default. AAAA fd00::1:0; headless.default. AAAA fd00::9"},
		{"none-ready.default", "A", nx},
		{"unready.default", "A", "NOERROR; unready.default. A 10.3.0.105"},
		{"portless.default", "A", "NOERROR; portless.default. A 10.3.0.106"},
		{"portless.default", "SRV", "NOERROR"},
		{"my-pet.headless.default", "A", "NOERROR; my-pet.headless.default. A 10.3.0.100"},
		{"my-pet.headless.default", "AAAA", "NOERROR; my-pet.headless.default. AAAA fd00::9"},
		{"my-pet-2.headless.default", "AAAA", "NOERROR"},
		{"MY-PET-2.headless.default", "A", "NOERROR; MY-PET-2.headless.default. A 10.3.0.101"},
		{"10-3-0-102.headless.default", "A", "NOERROR; 10-3-0-102.headless.default. A 10.3.0.102"},
		{"fd00--1-0.headless.default", "AAAA", "NOERROR; fd00--1-0.headless.default. AAAA fd00::1:0"},
		{"not-ready.headless.default", "A", nx},
		{"absent.headless.default", "A", nx},
		// 2.4.2
		{"_https._tcp.headless.default", "SRV", "NOERROR; _https._tcp.headless.default. SRV 0 25 443 10-3-0-102.headless.default.; " +
			"_https._tcp.headless.default. SRV 0 25 443 fd00--1-0.headless.default.; " +
			"_https._tcp.headless.default. SRV 0 25 443 my-pet-2.headless.default.; _https._tcp.headless.default. SRV 0 25 443 my-pet.headless.default."},
		{"my-pet.headless.default", "SRV", "NOERROR; my-pet.headless.default. SRV 0 100 443 my-pet.headless.default."},
		{"_https._tcp.headless.default", "AAAA", "NOERROR; _https._tcp.headless.default. AAAA fd00::1:0; _https._tcp.headless.default. AAAA fd00::9"},
		{"_https._tcp.none-ready.default", "SRV", nx},
		// 2.4.3
		{"100.0.3.10.in-addr.arpa.", "PTR", "NOERROR; 100.0.3.10.in-addr.arpa. PTR my-pet.headless.default."},
		{"103.0.3.10.in-addr.arpa.", "PTR", nx},
		{"107.0.3.10.in-addr.arpa.", "PTR", nx},
		// 2.5
		{"foo.default", "A", "NOERROR; foo.default. CNAME www.example.com."},
		{"foo.default", "CNAME", "NOERROR; foo.default. CNAME www.example.com."},
		{"foo.default", "MX", "NOERROR; foo.default. CNAME www.example.com."},
		{"_http._tcp.foo.default", "SRV", nx},
		{"x.foo.default", "A", nx},
		{"inside.default", "A", "NOERROR; inside.default. CNAME kubernetes.default.; kubernetes.default. A 10.3.0.1"},
		{"loop-a.default", "A", "SERVFAIL"},
		{"address.default", "A", nx},
		// 2.6
		{"10-1-2-3.default.pod.cluster.local.", "A", "NOERROR; 10-1-2-3.default.pod.cluster.local. A 10.1.2.3"},
		{"10-1-2-3.default.pod.cluster.local.", "AAAA", "NOERROR"},
		{"fd00--1-2.default.pod.cluster.local.", "AAAA", "NOERROR; fd00--1-2.default.pod.cluster.local. AAAA fd00::1:2"},
		{"10-1-2.default.pod.cluster.local.", "A", nx},
		{"10-1-2-3.absent.pod.cluster.local.", "A", nx},
		{"x.10-1-2-3.default.pod.cluster.local.", "A", nx},
		// Names between.
		{"cluster.local.", "A", "NOERROR"},
		{"cluster.local.", "NS", "NOERROR; cluster.local. NS ns.dns.cluster.local."},
		{"ns.dns.cluster.local.", "A", "NOERROR; ns.dns.cluster.local. A 10.96.0.10"},
		{"dns.cluster.local.", "A", "NOERROR"},
		{"svc.cluster.local.", "A", "NOERROR"},
		{"pod.cluster.local.", "A", "NOERROR"},
		{"default", "A", "NOERROR"},
		{"empty", "A", "NOERROR"},
		{"absent", "A", nx},
		{"www.example.com.default", "A", nx}, // as search lists make them
		{"www.example.com", "A", nx},
		{"www.example.com.cluster.local.", "A", nx},
		{`a\.b.default`, "A", nx},
		{`a\000.default`, "A", nx},
		// Other zones, without upstreams.
		{"www.example.com.", "A", "REFUSED"},
		{"notcluster.local.", "A", "REFUSED"},
		{"8.8.8.8.in-addr.arpa.", "PTR", "REFUSED"},
		{"10.in-addr.arpa.", "PTR", "REFUSED"},
		{".", "NS", "REFUSED"},
		{"cluster.local.", "AXFR", "REFUSED"},
	} {
		if !strings.HasSuffix(c.name, ".") {
			c.name += "." + zone
		}
		a := ask(t, s, wide(c.name, dns.StringToType[c.kind]))
		want := c.want
		got := strings.ReplaceAll(rendered(a), zone, "")
		if !strings.Contains(c.name, "."+zone) || strings.HasSuffix(c.name, "arpa.") {
			got = strings.ReplaceAll(rendered(a), "."+zone, ".")
		}
		if got != want {
			t.Errorf("%s %s\n got %s\nwant %s", c.name, c.kind, got, want)
		}
		checkAuthority(t, a)
	}
}

// checkAuthority: answers of the zone are authoritative, and negative ones have the SOA record.
func checkAuthority(t *testing.T, a *dns.Msg) {
	t.Helper()
	negative := len(a.Answer) == 0 && (a.Rcode == dns.RcodeSuccess || a.Rcode == dns.RcodeNameError)
	hasSOA := len(a.Ns) == 1 && a.Ns[0].Header().Rrtype == dns.TypeSOA && dns.IsSubDomain(a.Ns[0].Header().Name, a.Question[0].Name)
	if negative != hasSOA {
		t.Errorf("%v: rcode %d, answer %v, authority %v", a.Question, a.Rcode, a.Answer, a.Ns)
	}
	if !a.Authoritative && a.Rcode != dns.RcodeRefused && a.Rcode != dns.RcodeServerFailure {
		t.Errorf("%v: not authoritative", a.Question)
	}
}

func TestAdditionalRecords(t *testing.T) {
	s := exampleWorld().start(t, nil)
	<-s.Ready()
	a := ask(t, s, wide("_https._tcp.headless.default.svc.cluster.local.", dns.TypeSRV))
	got := map[string]bool{}
	for _, rr := range a.Extra {
		got[brief(rr)] = true
	}
	for _, want := range []string{
		"my-pet.headless.default.svc.cluster.local. A 10.3.0.100", "my-pet.headless.default.svc.cluster.local. AAAA fd00::9",
		"10-3-0-102.headless.default.svc.cluster.local. A 10.3.0.102",
	} {
		if !got[want] {
			t.Errorf("%q is missing in %v", want, a.Extra)
		}
	}
}
