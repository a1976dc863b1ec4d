package kube_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

const (
	addressPath = "/apis/networking.k8s.io/v1/ipaddresses"
	rangePath   = "/apis/networking.k8s.io/v1/servicecidrs"
)

// addressServer serves a cluster with a range of cluster IPs from store.
func addressServer(t *testing.T, store storage.Store, cidr string) client {
	c := kube.Config{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix(cidr)}}
	return client{t, apiservertest.Start(t, apiservertest.WithResources(kube.ResourcesFor(c)...),
		apiservertest.WithConfig(func(c *apiserver.Config) { c.Store, c.Layout = store, kube.Layout })), "application/json"}
}

func listed[T any](c client, path string) (list T) {
	c.t.Helper()
	if err := json.Unmarshal(c.do("GET", path, "", 200), &list); err != nil {
		c.t.Fatal(err)
	}
	return list
}

// addresses returns the names of the IPAddresses with the services that have them.
func (c client) addresses() string {
	c.t.Helper()
	var out []string
	for _, ip := range listed[networkingv1.IPAddressList](c, addressPath).Items {
		out = append(out, ip.Name+"="+ip.Spec.ParentRef.Name)
	}
	return strings.Join(out, " ")
}

func (c client) want(addresses string) {
	c.t.Helper()
	if have := c.addresses(); have != addresses {
		c.t.Errorf("addresses %q, want %q", have, addresses)
	}
}

func webService(name, spec string) string {
	return fmt.Sprintf(`{metadata: {name: %s}, spec: {ports: [{port: 80}]%s}}`, name, spec)
}

// TestIPAddresses: a service has an IPAddress for each of its addresses, from its creation to its end.
func TestIPAddresses(t *testing.T) {
	c := addressServer(t, memstore.New(), "10.0.0.0/29")
	c.do("POST", servicePath, webService("a", ", clusterIP: 10.0.0.1"), 201)
	var ip networkingv1.IPAddress
	if err := json.Unmarshal(c.do("GET", addressPath+"/10.0.0.1", "", 200), &ip); err != nil {
		t.Fatal(err)
	}
	if want := (networkingv1.ParentReference{Resource: "services", Namespace: "team", Name: "a"}); *ip.Spec.ParentRef != want ||
		ip.Labels["ipaddress.kubernetes.io/ip-family"] != "IPv4" || ip.Labels["ipaddress.kubernetes.io/managed-by"] != "ipallocator.k8s.io" ||
		ip.UID == "" || ip.ResourceVersion == "" || time.Since(ip.CreationTimestamp.Time) > time.Minute {
		t.Errorf("address %+v", ip)
	}
	c.do("POST", servicePath+"?dryRun=All", webService("b", ", clusterIP: 10.0.0.2"), 201)
	c.do("POST", servicePath, webService("b", ", clusterIP: 10.0.0.2, sessionAffinity: None, ports: [{port: 0}]"), 422)
	c.do("POST", servicePath, webService("a", ", clusterIP: 10.0.0.2"), 409)
	c.want("10.0.0.1=a")
	// A client's own address is taken, and stays.
	c.do("POST", addressPath, `{metadata: {name: 10.0.0.2}, spec: {parentRef: {group: example.com, resource: gateways, name: g}}}`, 201)
	c.refused(webService("b", ", clusterIP: 10.0.0.2"), 422, "provided IP is already allocated")
	for n := range 4 {
		c.do("POST", servicePath, webService(fmt.Sprint("free-", n), ""), 201)
	}
	c.refused(webService("b", ""), 500, "range is full")
	c.do("PUT", servicePath+"/a", `{metadata: {name: a}, spec: {type: ExternalName, externalName: example.com}}`, 200)
	c.do("POST", servicePath, webService("b", ""), 201)
	if have := c.addresses(); !strings.HasPrefix(have, "10.0.0.1=b 10.0.0.2=g ") {
		t.Errorf("addresses %s", have)
	}
	// One that a client deletes is free, although a service has it, until it is repaired.
	c.do("DELETE", addressPath+"/10.0.0.1", "", 200)
	c.do("DELETE", servicePath+"/b", "", 200)
	// One with a finalizer stays until a client removes that.
	c.do("POST", servicePath, webService("b", ", clusterIP: 10.0.0.1"), 201)
	ip = networkingv1.IPAddress{}
	if err := json.Unmarshal(c.do("GET", addressPath+"/10.0.0.1", "", 200), &ip); err != nil {
		t.Fatal(err)
	}
	ip.Finalizers = []string{"example.com/mine"}
	body, err := json.Marshal(ip)
	if err != nil {
		t.Fatal(err)
	}
	c.do("PUT", addressPath+"/10.0.0.1", string(body), 200)
	c.do("DELETE", servicePath+"/b", "", 200)
	c.refused(webService("b", ""), 500, "range is full")
	c.do("DELETE", servicePath, "", 200)
	c.want("10.0.0.1=b 10.0.0.2=g")
}

// TestAddressRace creates 100 services from six addresses at once, at two servers of one store. Each
// address goes to one service, the other services are refused, and deletes leave nothing.
func TestAddressRace(t *testing.T) {
	store := memstore.New()
	servers := []client{addressServer(t, store, "10.0.0.0/29"), addressServer(t, store, "10.0.0.0/29")}
	var all sync.WaitGroup
	refused := make(chan string, 100)
	for n := range 100 {
		all.Go(func() {
			if status, answer := servers[n%2].send("POST", servicePath, webService(fmt.Sprint("s-", n), "")); status != 201 {
				refused <- answer
			}
		})
	}
	all.Wait()
	close(refused)
	for answer := range refused {
		if !strings.Contains(answer, "range is full") {
			t.Error(answer)
		}
	}
	seen := map[string]bool{}
	services := listed[corev1.ServiceList](servers[0], servicePath).Items
	for _, s := range services {
		if seen[s.Spec.ClusterIP] {
			t.Errorf("%s is given twice", s.Spec.ClusterIP)
		}
		seen[s.Spec.ClusterIP] = true
	}
	if have := servers[1].addresses(); len(services) != 6 || strings.Count(have, "=") != 6 {
		t.Errorf("%d services with %s", len(services), have)
	}
	for n, s := range services {
		servers[n%2].do("DELETE", servicePath+"/"+s.Name, "", 200)
	}
	servers[0].want("")
}

// leave stores an IPAddress as a server does that fails before it has stored the service, at a time or, if it
// is empty, without one.
func (c client) leave(store storage.Store, name, service, at string) {
	c.t.Helper()
	put(c.t, store, storage.Key("/registry/ipaddresses/"+name), fmt.Sprintf(
		`{"kind":"IPAddress","apiVersion":"networking.k8s.io/v1","metadata":{"name":%q,"uid":"u","creationTimestamp":%s,"labels":{"ipaddress.kubernetes.io/managed-by":"ipallocator.k8s.io"}},`+
			`"spec":{"parentRef":{"resource":"services","namespace":"team","name":%q}}}`, name, cmp.Or(at, "null"), service))
}

// TestAddressesLeftOver: a new server finds the addresses of services that have no IPAddress, and
// records of an earlier version. An address of no attempt and no service is free; one of an attempt is not until
// the server met it a minute ago, whatever its time is.
func TestAddressesLeftOver(t *testing.T) {
	store := memstore.New()
	c := addressServer(t, store, "10.0.0.0/29")
	for n := range 3 {
		c.do("POST", servicePath, webService(fmt.Sprint("s-", n), fmt.Sprint(", clusterIP: 10.0.0.", n+1)), 201)
	}
	c.do("DELETE", addressPath+"/10.0.0.2", "", 200)
	c.leave(store, "10.0.0.4", "gone", "")
	c.leave(store, "10.0.0.5", "coming", `"2001-01-01T00:00:00Z"`)
	c.leave(store, "10.0.0.6", "s-0", "")
	put(t, store, "/registry/held/core/services/ip/10.0.0.3", `{"holder":"/registry/services/specs/team/s-2","uid":"u"}`)

	next := addressServer(t, store, "10.0.0.0/29")
	next.do("POST", servicePath, webService("a", ""), 201)
	next.do("POST", servicePath, webService("b", ""), 201)
	next.refused(webService("c", ""), 500, "range is full")
	have := next.addresses()
	for _, want := range []string{"10.0.0.1=s-0 10.0.0.2=s-1 10.0.0.3=s-2 ", " 10.0.0.5=coming "} {
		if !strings.Contains(have, want) {
			t.Errorf("addresses %q, want %q", have, want)
		}
	}
	if _, err := store.Get(t.Context(), "/registry/held/core/services/ip/10.0.0.3", 0); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("a record of an earlier version: %v", err)
	}
}
