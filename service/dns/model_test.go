package dns

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var modelQuestions = flag.Int("questions", 100_000, "how many questions TestModel asks")

// model answers from all objects, as plainly as possible: it makes every record of the cluster, and looks
// which of them have the name and the type.
type model struct {
	records []modelRecord
}

type modelRecord struct{ name, kind, data string }

const modelZone = "cluster.local."

func newModel(w *world) *model {
	m := &model{}
	m.add("dns-version."+modelZone, "TXT", `"1.1.0"`)
	m.add("ns.dns."+modelZone, "A", "10.96.0.10")
	m.add("svc."+modelZone, "", "")
	m.add("pod."+modelZone, "", "")
	for ns := range w.namespaces.All() {
		m.add(ns.Name+".svc."+modelZone, "", "")
		m.add(ns.Name+".pod."+modelZone, "", "")
	}
	for s := range w.services.All() {
		m.addService(w, s)
	}
	return m
}

func (m *model) add(name, kind, data string) {
	m.records = append(m.records, modelRecord{strings.ToLower(name), kind, data})
}

func (m *model) addAddress(name, address string) {
	kind := "A"
	if strings.Contains(address, ":") {
		kind = "AAAA"
	}
	m.add(name, kind, address)
}

func (m *model) addPointer(address, name string) {
	reverse, err := dns.ReverseAddr(address)
	if err != nil {
		panic(err)
	}
	m.add(reverse, "PTR", name)
}

func (m *model) addService(w *world, s *corev1.Service) {
	own := s.Name + "." + s.Namespace + ".svc." + modelZone
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		m.add(own, "CNAME", s.Spec.ExternalName+".")
		return
	}
	headless := s.Spec.ClusterIP == "None"
	if !headless {
		for _, p := range s.Spec.Ports {
			srv := fmt.Sprintf("%d %s", p.Port, own)
			m.add(own, "SRV", srv)
			for _, ip := range s.Spec.ClusterIPs {
				m.addAddress(own, ip)
			}
			if p.Name == "" {
				continue
			}
			protocol := "_" + strings.ToLower(string(p.Protocol)) + "." + own
			m.add(protocol, "", "")
			m.add("_"+p.Name+"."+protocol, "SRV", srv)
			for _, ip := range s.Spec.ClusterIPs {
				m.addAddress("_"+p.Name+"."+protocol, ip)
			}
		}
		for _, ip := range s.Spec.ClusterIPs {
			m.addPointer(ip, own)
		}
	}
	for slice := range w.slices.All() {
		if slice.Namespace == s.Namespace && slice.Labels[discoveryv1.LabelServiceName] == s.Name {
			for _, e := range slice.Endpoints {
				if *e.Conditions.Ready || s.Spec.PublishNotReadyAddresses {
					m.addEndpoint(w, own, headless, slice, e)
				}
			}
		}
	}
}

func (m *model) addEndpoint(w *world, own string, headless bool, slice *discoveryv1.EndpointSlice, e discoveryv1.Endpoint) {
	address := e.Addresses[0]
	host := strings.NewReplacer(".", "-", ":", "-").Replace(address)
	if e.Hostname != nil {
		host = strings.ToLower(*e.Hostname)
	}
	m.addAddress(host+"."+own, address)
	isService := false
	for s := range w.services.All() {
		isService = isService || slices.Contains(s.Spec.ClusterIPs, address)
	}
	if !isService {
		m.addPointer(address, host+"."+own)
	}
	if headless {
		m.addAddress(own, address)
	}
	for _, p := range slice.Ports {
		srv := fmt.Sprintf("%d %s", *p.Port, host+"."+own)
		m.add(host+"."+own, "SRV", srv)
		if !headless {
			continue
		}
		m.add(own, "SRV", srv)
		if *p.Name == "" {
			continue
		}
		protocol := "_" + strings.ToLower(string(*p.Protocol)) + "." + own
		m.add(protocol, "", "")
		m.add("_"+*p.Name+"."+protocol, "SRV", srv)
		m.addAddress("_"+*p.Name+"."+protocol, address)
	}
}

// index groups the records by name.
func (m *model) byName() map[string][]modelRecord {
	all := map[string][]modelRecord{}
	for _, r := range m.records {
		all[r.name] = append(all[r.name], r)
	}
	return all
}

// answer returns what the server should say, as text.
func answer(records []modelRecord, kind string) string {
	if len(records) == 0 {
		return "NXDOMAIN"
	}
	found := map[string]bool{}
	for _, r := range records {
		if r.kind == kind || r.kind == "CNAME" {
			found[r.kind+" "+r.data] = true
		}
	}
	return strings.Join(append([]string{"NOERROR"}, slices.Sorted(maps.Keys(found))...), "; ")
}

// said returns what the server says, without weights.
func said(a *dns.Msg) string {
	var lines []string
	for _, rr := range a.Answer {
		line := dns.TypeToString[rr.Header().Rrtype] + " " + strings.TrimPrefix(rr.String(), rr.Header().String())
		if srv, ok := rr.(*dns.SRV); ok {
			line = fmt.Sprintf("SRV %d %s", srv.Port, srv.Target)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(append([]string{dns.RcodeToString[a.Rcode]}, lines...), "; ")
}

// modelNames are few, so that objects meet.
var modelNames = []string{"a", "b", "web", "db-0", "x1"}

// change changes a random object of the world.
func change(r *rand.Rand, w *world) {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	namespace := pick("default", "kube-system", "other")
	ip := func() string { return fmt.Sprintf("10.0.%d.%d", r.IntN(2), r.IntN(20)) }
	ip6 := func() string { return fmt.Sprintf("fd00::%x:%x", 1+r.IntN(3), 1+r.IntN(9)) }
	switch kind := r.IntN(20); {
	case kind == 0:
		w.namespaces.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	case kind == 1:
		w.namespaces.Delete(namespace)
	case kind < 4:
		w.services.Delete(namespace + "/" + pick(modelNames...))
	case kind < 6:
		w.slices.Delete(namespace + "/" + pick("s1", "s2", "s3", "s4"))
	case kind == 6:
		w.services.Put(external(namespace+"/"+pick(modelNames...), pick("example.com", "Example.org")))
	case kind < 13:
		address := pick(ip(), ip6(), ip()+","+ip6(), "None", "None")
		s := service(namespace+"/"+pick(modelNames...), address)
		for _, name := range pickSome(r, "http", "", "dns") {
			p := servicePort(name, 1+r.Int32N(100))
			p.Protocol = corev1.Protocol(pick("TCP", "UDP"))
			s.Spec.Ports = append(s.Spec.Ports, p)
		}
		s.Spec.PublishNotReadyAddresses = r.IntN(4) == 0
		w.services.Put(s)
	default:
		var ports []discoveryv1.EndpointPort
		for _, name := range pickSome(r, "http", "", "dns") {
			ports = append(ports, endpointPort(name, 1+r.Int32N(100)))
		}
		make := pick("4", "6")
		var endpoints []discoveryv1.Endpoint
		for range r.IntN(4) {
			address := ip()
			if make == "6" {
				address = ip6()
			}
			endpoints = append(endpoints, endpoint(address, pick("", "", "Pod-0", "pod-1"), r.IntN(4) > 0))
		}
		w.slices.Put(slice(namespace+"/"+pick("s1", "s2", "s3", "s4"), pick(modelNames...), ports, endpoints...))
	}
}

// pickSome returns at least one of all.
func pickSome(r *rand.Rand, all ...string) []string {
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:1+r.IntN(len(all))]
}

// randomName returns a name that may exist, or one close to it.
func randomName(r *rand.Rand, known []string) string {
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	if r.IntN(2) == 0 {
		name := pick(known...)
		switch r.IntN(6) {
		case 0:
			return "x." + name
		case 1:
			_, name, _ = strings.Cut(name, ".")
			return cmpOr(name, modelZone)
		case 2:
			return strings.ToUpper(name)
		}
		return name
	}
	own := pick(modelNames...) + "." + pick("default", "kube-system", "other", "absent") + "." + pick("svc", "svc", "svc", "pod") + "." + modelZone
	return pick("", "", "_http._tcp.", "_dns._udp.", "_tcp.", "pod-0.", "pod-1.", "10-0-0-1.", "a.b.") + own
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// TestModel compares random answers with those of the model, while the objects change at random.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	testModel(t, seed, *modelQuestions)
}

func testModel(t *testing.T, seed uint64, questions int) {
	const perState = 200
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWorld()
	s := w.start(t, nil)
	<-s.Ready()
	kinds := []string{"A", "A", "AAAA", "SRV", "PTR", "TXT", "MX"}
	for range questions / perState {
		for range 1 + r.IntN(10) {
			change(r, w)
		}
		byName := newModel(w).byName()
		known := slices.Sorted(maps.Keys(byName))
		for range perState {
			name, kind := randomName(r, known), kinds[r.IntN(len(kinds))]
			if !isModelled(name) {
				continue
			}
			want := answer(byName[strings.ToLower(name)], kind)
			m := new(dns.Msg).SetQuestion(name, dns.StringToType[kind]).SetEdns0(MaxUDPSize, false)
			if got := said(ask(t, s, m)); got != want {
				t.Fatalf("%s %s\n got %s\nwant %s", name, kind, got, want)
			}
		}
	}
	checkEmpty(t, w, s)
}

// isModelled reports whether the model has the name: it makes no pods, nor the apex.
func isModelled(name string) bool {
	lower := strings.ToLower(name)
	return lower != modelZone && (!strings.HasSuffix(lower, ".pod."+modelZone) || strings.Count(lower, ".") == 4) &&
		lower != "dns."+modelZone && (strings.HasSuffix(lower, "."+modelZone) || isWholeReverse(lower))
}

func isWholeReverse(lower string) bool {
	a, _, ok := reverseAddress(lower)
	return ok && a.IsPrivate()
}

// checkEmpty: nothing is left in the index once all objects are gone.
func checkEmpty(t *testing.T, w *world, s *Server) {
	t.Helper()
	for o := range w.services.All() {
		w.services.Delete(localcache.KeyOf(o))
	}
	for o := range w.slices.All() {
		w.slices.Delete(localcache.KeyOf(o))
	}
	for o := range w.namespaces.All() {
		w.namespaces.Delete(localcache.KeyOf(o))
	}
	s.index.mu.Lock()
	defer s.index.mu.Unlock()
	x := s.index
	if n := len(x.services) + len(x.namespaces) + len(x.exists) + len(x.clusterIPs) + len(x.endpoints); n != 0 {
		t.Errorf("%d entries are left: %v", n, x)
	}
}

// TestReverse: names of addresses are parsed whole or not at all.
func TestReverse(t *testing.T) {
	for range 1000 {
		var bytes [16]byte
		for i := range bytes {
			bytes[i] = byte(rand.Uint32())
		}
		for _, a := range []netip.Addr{netip.AddrFrom16(bytes), netip.AddrFrom4([4]byte(bytes[:4]))} {
			name, err := dns.ReverseAddr(a.String())
			if err != nil {
				t.Fatal(err)
			}
			got, _, ok := reverseAddress(name)
			if !ok || got != a && !a.Is4In6() {
				t.Errorf("%s is %v %v, want %v", name, got, ok, a)
			}
			if _, _, ok := reverseAddress(name[2:]); ok && a.Is6() {
				t.Errorf("%s is whole", name[2:])
			}
		}
	}
}
