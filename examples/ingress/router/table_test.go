package router_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/examples/ingress/router"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rule returns a rule for a host, whose paths are like "Prefix /shop shop".
func rule(host string, paths ...string) networkingv1.IngressRule {
	r := networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{}}}
	for _, p := range paths {
		kind, rest, _ := strings.Cut(p, " ")
		path, service, _ := strings.Cut(rest, " ")
		r.HTTP.Paths = append(r.HTTP.Paths, networkingv1.HTTPIngressPath{
			Path: path, PathType: new(networkingv1.PathType(kind)), Backend: *backend(service),
		})
	}
	return r
}

func backend(service string) *networkingv1.IngressBackend {
	return &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: service, Port: networkingv1.ServiceBackendPort{Number: 80},
	}}
}

func ingress(name string, created int64, rules ...networkingv1.IngressRule) *networkingv1.Ingress {
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: metav1.Unix(created, 0)},
		Spec:       networkingv1.IngressSpec{Rules: rules},
	}
}

// A table finds the backend with the most specific host and the longest path.
func Example() {
	table := router.NewTable([]*networkingv1.Ingress{
		ingress("shop", 1, rule("shop.example.com", "Prefix / web", "Prefix /cart cart", "Exact /cart health")),
		ingress("all", 2, rule("*.example.com", "Prefix / others")),
	})
	for _, request := range []string{"shop.example.com/cart/1", "shop.example.com:8080/cart", "shop.example.com/cartoon", "www.example.com/", "example.com/"} {
		host, path, _ := strings.Cut(request, "/")
		backend, ok := table.Find(host, "/"+path)
		fmt.Println(request, backend.Service, ok)
	}
	// Output:
	// shop.example.com/cart/1 default/cart true
	// shop.example.com:8080/cart default/health true
	// shop.example.com/cartoon default/web true
	// www.example.com/ default/others true
	// example.com/  false
}

// TestPaths has the examples of https://kubernetes.io/docs/concepts/services-networking/ingress/#examples.
func TestPaths(t *testing.T) {
	for _, c := range []struct {
		paths   string // separated by commas; the last word is the backend
		request string
		want    string
	}{
		{"Prefix / a", "/any/path", "a"},
		{"Exact /foo a", "/foo", "a"},
		{"Exact /foo a", "/bar", ""},
		{"Exact /foo a", "/foo/", ""},
		{"Exact /foo/ a", "/foo", ""},
		{"Prefix /foo a", "/foo/", "a"},
		{"Prefix /foo/ a", "/foo", "a"},
		{"Prefix /aaa/bb a", "/aaa/bbb", ""},
		{"Prefix /aaa/bbb a", "/aaa/bbb", "a"},
		{"Prefix /aaa/bbb/ a", "/aaa/bbb", "a"},
		{"Prefix /aaa/bbb a", "/aaa/bbb/", "a"},
		{"Prefix /aaa/bbb a", "/aaa/bbb/ccc", "a"},
		{"Prefix /aaa/bbb a", "/aaa/bbbxyz", ""},
		{"Prefix / a,Prefix /aaa b", "/aaa/ccc", "b"},
		{"Prefix / a,Prefix /aaa b", "/ccc", "a"},
		{"Prefix / a,Prefix /aaa b,Prefix /aaa/bbb c", "/aaa/bbb", "c"},
		{"Prefix /foo a,Exact /foo b", "/foo", "b"},
		{"Prefix /foo/ a,Exact /foo b", "/foo", "b"},
		{"ImplementationSpecific  a", "/x", "a"},
		{"Prefix /FOO a", "/foo", ""},
		// Slashes count once, and no path has dots as an element.
		{"Prefix /foo a", "//foo///bar", "a"},
		{"Exact /foo a", "//foo", "a"},
		{"Prefix / a", "//../", ""},
		{"Prefix / a", "/foo/..", ""},
		{"Prefix / a", "/./foo", ""},
		{"Prefix / a", "/..foo/.bar", "a"},
		{"Prefix / a", "*", ""},
		{"Prefix / a", "", ""},
		{"ImplementationSpecific /a//b a", "/a/b", ""},
	} {
		table := router.NewTable([]*networkingv1.Ingress{ingress("in", 1, rule("", strings.Split(c.paths, ",")...))})
		if got, ok := table.Find("example.com", c.request); ok != (c.want != "") || ok && got.Service != "default/"+c.want {
			t.Errorf("%s: %q leads to %q, want %q", c.paths, c.request, got.Service, c.want)
		}
	}
}

// TestHosts: exact hosts, wildcards of one label, rules for all hosts, default backends.
func TestHosts(t *testing.T) {
	first := ingress("first", 1, rule("a.example.com", "Prefix /x a"), rule("*.example.com", "Prefix /x b", "Prefix /y b"))
	first.Spec.DefaultBackend = backend("first")
	table := router.NewTable([]*networkingv1.Ingress{
		first, ingress("second", 2, rule("", "Prefix /z c"), rule("a.example.com", "Prefix /x late", "Prefix /w w")),
	})
	for request, want := range map[string]string{
		"a.example.com/x": "a", "A.EXAMPLE.COM.:8080/x": "a", "a.example.com/y": "b", "a.example.com/w": "w",
		"b.example.com/x": "b", "b.a.example.com/x": "first", "example.com/x": "first", ".example.com/x": "first",
		"/z": "c", "b.example.com/z": "c", "[::1]:80/z": "c", "127.0.0.1:80/z": "c", "other.org/": "first",
	} {
		host, path, _ := strings.Cut(request, "/")
		if got, ok := table.Find(host, "/"+path); !ok || got.Service != "default/"+want {
			t.Errorf("%s leads to %q, want %q", request, got.Service, want)
		}
	}
	problems := table.Problems()
	if len(problems) != 1 || problems[0].Reason != "Conflict" || problems[0].Ingress.Name != "second" ||
		problems[0].Message != `path "/x" of host "a.example.com" belongs to ingress default/first already` {
		t.Errorf("Problems() = %+v, want one Conflict of ingress second: %s", problems,
			`path "/x" of host "a.example.com" belongs to ingress default/first already`)
	}
}

// TestUnsupported: a backend that is no service has no effect, and is a problem.
func TestUnsupported(t *testing.T) {
	in := ingress("in", 1, rule("a.org", "Prefix /x x"))
	in.Spec.Rules[0].HTTP.Paths[0].Backend = networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{Kind: "Bucket", Name: "b"}}
	table := router.NewTable([]*networkingv1.Ingress{in})
	if b, ok := table.Find("a.org", "/x"); ok {
		t.Errorf("it leads to %v", b)
	}
	if p := table.Problems(); len(p) != 1 || p[0].Reason != "UnsupportedBackend" || p[0].Message != "the backend Bucket b is not a service: it has no effect" {
		t.Errorf("Problems() = %+v, want one UnsupportedBackend: the backend Bucket b is not a service: it has no effect", p)
	}
}

// TestOwn: which ingresses belong to a controller.
func TestOwn(t *testing.T) {
	class := func(name, controller string, created int64, isDefault string) *networkingv1.IngressClass {
		return &networkingv1.IngressClass{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(created, 0), Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: isDefault}},
			Spec:       networkingv1.IngressClassSpec{Controller: controller},
		}
	}
	classes := []*networkingv1.IngressClass{class("ours", "a/b", 1, "true"), class("more", "a/b", 2, ""), class("theirs", "c/d", 3, "")}
	named, more, theirs, old, none, ghost := ingress("named", 3), ingress("more", 2), ingress("theirs", 1), ingress("old", 1), ingress("none", 1), ingress("ghost", 1)
	named.Spec.IngressClassName, more.Spec.IngressClassName, theirs.Spec.IngressClassName, ghost.Spec.IngressClassName = new("ours"), new("more"), new("theirs"), new("ghost")
	old.Annotations = map[string]string{"kubernetes.io/ingress.class": "ours"}
	all := []*networkingv1.Ingress{named, more, theirs, old, none, ghost}
	names := func(class string) string {
		var out []string
		for _, in := range router.Own("a/b", class, all, classes) {
			out = append(out, in.Name)
		}
		return strings.Join(out, " ")
	}
	if got := names(""); got != "none old more named" {
		t.Errorf("all classes: %s", got)
	}
	if got := names("more"); got != "more" {
		t.Errorf("one class: %s", got)
	}
	classes = append(classes, class("newer", "c/d", 9, "true"))
	if got := names(""); got != "old more named" {
		t.Errorf("with a newer default class: %s", got)
	}
}

// TestSecrets: the secret of a server name, and conflicts.
func TestSecrets(t *testing.T) {
	a, b := ingress("a", 1, rule("x.org")), ingress("b", 2)
	a.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"a.org", "*.a.org"}, SecretName: "one"}, {SecretName: "rules"}, {Hosts: []string{"n.org"}}}
	b.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"a.org"}, SecretName: "two"}, {SecretName: "all"}}
	table := router.NewTable([]*networkingv1.Ingress{a, b})
	for name, want := range map[string]string{"a.org": "one", "B.a.org": "one", "x.org": "rules", "c.b.a.org": "all", "": "all", "n.org": "all"} {
		if got, ok := table.SecretFor(name); !ok || got != "default/"+want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	if p := table.Problems(); len(p) != 1 || p[0].Ingress != b {
		t.Errorf("Problems() = %+v, want one of the ingress b", p)
	}
}

// TestEndpoints: ready endpoints by name and number.
func TestEndpoints(t *testing.T) {
	service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}}}
	slice := func(addresses ...string) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new("web"), Port: new(int32(8080))}, {Name: new("dns"), Port: new(int32(53))}}}
		for _, a := range addresses {
			address, isDown := strings.CutPrefix(a, "!")
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(!isDown)}})
		}
		return s
	}
	got := router.Endpoints(service, []*discoveryv1.EndpointSlice{slice("10.0.0.2", "!10.0.0.3"), slice("10.0.0.1", "10.0.0.2")})
	want := []string{"10.0.0.1:8080", "10.0.0.2:8080"}
	if len(got) != 2 || !slices.Equal(got["80"], want) || !slices.Equal(got["web"], want) {
		t.Errorf("Endpoints() = %v, want %v for 80 and for web, and no more", got, want)
	}
}

var (
	someHosts = []string{"", "a.org", "b.a.org", "*.a.org", "*.b.a.org", "c.b.a.org", "org"}
	someParts = []string{"", "/", "/x", "/xx", "/x/", "/x/y", "/x/y/", "/y", "/x/y/z", "/..x"}
)

// generate returns random ingresses, oldest first.
func generate(r *rand.Rand) []*networkingv1.Ingress {
	var all []*networkingv1.Ingress
	for i := range 1 + r.IntN(6) {
		in := ingress(fmt.Sprintf("in-%d", i), int64(i))
		if r.IntN(4) == 0 {
			in.Spec.DefaultBackend = backend(fmt.Sprintf("default-%d", i))
		}
		for range r.IntN(4) {
			var paths []string
			for range r.IntN(5) {
				path := someParts[r.IntN(len(someParts))]
				kind := "Prefix"
				if path != "" && r.IntN(2) == 0 {
					kind = "Exact"
				}
				paths = append(paths, fmt.Sprintf("%s %s s-%d-%d", kind, path, i, len(paths)))
			}
			in.Spec.Rules = append(in.Spec.Rules, rule(someHosts[r.IntN(len(someHosts))], paths...))
		}
		all = append(all, in)
	}
	return all
}

// reference finds a backend as the documentation describes it: it looks at every path of every rule.
func reference(all []*networkingv1.Ingress, host, path string) string {
	type match struct{ host, length, exact, position int }
	var best *match
	service := ""
	var fallback, hostFallback string
	bestHost := -1
	position := 0
	for _, in := range all {
		if in.Spec.DefaultBackend != nil && fallback == "" {
			fallback = in.Spec.DefaultBackend.Service.Name
		}
		for _, rule := range in.Spec.Rules {
			rank := hostRank(rule.Host, host)
			if rank >= 0 && in.Spec.DefaultBackend != nil && rank > bestHost {
				bestHost, hostFallback = rank, in.Spec.DefaultBackend.Service.Name
			}
			for _, p := range rule.HTTP.Paths {
				position++
				if rank < 0 || !pathMatches(*p.PathType, p.Path, path) {
					continue
				}
				m := &match{rank, len(p.Path), 0, -position}
				if *p.PathType == networkingv1.PathTypeExact {
					m.exact = 1
				} else {
					m.length = len(strings.TrimRight(p.Path, "/"))
				}
				if best == nil || cmp.Or(cmp.Compare(m.host, best.host), cmp.Compare(m.length, best.length), cmp.Compare(m.exact, best.exact), cmp.Compare(m.position, best.position)) > 0 {
					best, service = m, p.Backend.Service.Name
				}
			}
		}
	}
	return cmp.Or(service, hostFallback, fallback)
}

func hostRank(pattern, host string) int {
	switch {
	case pattern == "":
		return 0
	case pattern == host:
		return 2
	case strings.HasPrefix(pattern, "*."):
		if label, rest, ok := strings.Cut(host, "."); ok && label != "" && rest == pattern[2:] {
			return 1
		}
	}
	return -1
}

func pathMatches(kind networkingv1.PathType, pattern, path string) bool {
	if kind == networkingv1.PathTypeExact {
		return pattern == path
	}
	want, have := strings.Split(strings.Trim(pattern, "/"), "/"), strings.Split(strings.Trim(path, "/"), "/")
	if want[0] == "" {
		return true
	}
	return len(have) >= len(want) && slices.Equal(want, have[:len(want)])
}

// TestModel compares tables with the reference.
func TestModel(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		all := generate(r)
		table := router.NewTable(all)
		for range 20 {
			host, path := someHosts[r.IntN(len(someHosts))], someParts[1+r.IntN(len(someParts)-1)]
			got, ok := table.Find(host, path)
			if want := reference(all, host, path); ok != (want != "") || ok && got.Service != "default/"+want {
				t.Fatalf("seed %d: %s%s leads to %q, want %q", seed, host, path, got.Service, want)
			}
		}
	}
}

// FuzzFind: any host and path lead where the reference says, and a path with dots as an element nowhere.
func FuzzFind(f *testing.F) {
	f.Add(uint64(1), "b.a.org:80", "//x//y")
	f.Add(uint64(2), "[::1]", "/x/../y")
	f.Add(uint64(3), "..", "*")
	f.Fuzz(func(t *testing.T, seed uint64, host, path string) {
		all := generate(rand.New(rand.NewPCG(seed, 0)))
		got, ok := router.NewTable(all).Find(host, path)
		elements := strings.Split(path, "/")
		if elements[0] != "" || len(elements) < 2 || slices.Contains(elements, "..") || slices.Contains(elements, ".") {
			if ok {
				t.Fatalf("%q leads to %v", path, got)
			}
			return
		}
		for strings.Contains(path, "//") {
			path = strings.ReplaceAll(path, "//", "/")
		}
		name, _, _ := strings.Cut(host, ":")
		name = strings.ToLower(strings.TrimSuffix(name, "."))
		if strings.HasPrefix(host, "[") || strings.Count(name, ".") == 3 { // perhaps an address
			return
		}
		if want := reference(all, name, path); ok != (want != "") || ok && got.Service != "default/"+want {
			t.Fatalf("%q %q leads to %q, want %q", host, path, got.Service, want)
		}
	})
}

// TestLongPaths: what a request costs is bounded by the table, not by the client's path: with a look at
// every prefix of this one, the test would take minutes.
func TestLongPaths(t *testing.T) {
	table := router.NewTable([]*networkingv1.Ingress{ingress("in", 1, rule("", "Prefix /x/x x"))})
	if b, ok := table.Find("", strings.Repeat("/x", 1<<19)); !ok || b.Service != "default/x" {
		t.Error(b, ok)
	}
}

// TestMany: 5,000 ingresses, all with a host of their own and one that all want.
func TestMany(t *testing.T) {
	var all []*networkingv1.Ingress
	for i := range 5000 {
		all = append(all, ingress(fmt.Sprint("in-", i), int64(i), rule(fmt.Sprintf("h%d.org", i), "Prefix / own", "Exact /x x"), rule("shared.org", fmt.Sprintf("Prefix / s-%d", i))))
	}
	table := router.NewTable(all)
	if b, ok := table.Find("h4999.org", "/y"); !ok || b.Service != "default/own" {
		t.Error(b, ok)
	}
	if b, ok := table.Find("shared.org", "/"); !ok || b.Service != "default/s-0" || len(table.Problems()) != 4999 {
		t.Error(b, ok, len(table.Problems()))
	}
}

func BenchmarkTable(b *testing.B) {
	var all []*networkingv1.Ingress
	for i := range 5000 {
		all = append(all, ingress(fmt.Sprint("in-", i), int64(i), rule(fmt.Sprintf("h%d.org", i), "Prefix / own", "Prefix /x/y x")))
	}
	b.Run("new/ingresses=5000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			router.NewTable(all)
		}
	})
	table := router.NewTable(all)
	b.Run("find/ingresses=5000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			table.Find("h77.org:80", "/x/y/z")
		}
	})
}
