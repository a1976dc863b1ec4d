//lint:file-ignore SA1019 clients still read Endpoints

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"k8s.io/apimachinery/pkg/api/meta"
)

// endpoint is where clients of r connect to.
func (r *running) endpoint(t *testing.T) string {
	t.Helper()
	config, err := kubeconfig.Load(r.config)
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(config.Clusters[config.Contexts[config.CurrentContext].Cluster].Server)
	if err != nil {
		t.Fatal(err)
	}
	return server.Host
}

// endpointsOf are the addresses in the Endpoints and in the slice of
// default/kubernetes.
func endpointsOf(ctx context.Context, t *testing.T, api *client.Client) (listed, sliced []string) {
	t.Helper()
	e, err := typed.Endpoints(api).Get(ctx, "default", "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	for _, subset := range e.Subsets {
		for _, a := range subset.Addresses {
			listed = append(listed, a.IP)
		}
	}
	s, err := typed.EndpointSlices(api).Get(ctx, "default", "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	for _, endpoint := range s.Endpoints {
		sliced = append(sliced, endpoint.Addresses...)
	}
	return listed, sliced
}

// TestServiceOfTheServer: a cluster that is ready has the Service
// default/kubernetes, whose address the server's certificate names.
func TestServiceOfTheServer(t *testing.T) {
	cluster := start(t, t.TempDir(), "--storage", "memory", "--nodes", "0", "--service-cluster-ip-range", "10.55.0.0/16", "--advertise-address", "192.0.2.1")
	api := cluster.client(t)
	_, port, err := net.SplitHostPort(cluster.endpoint(t))
	if err != nil {
		t.Fatal(err)
	}
	s, err := typed.Services(api).Get(t.Context(), "default", "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	if s.Spec.ClusterIP != "10.55.0.1" || s.Spec.Ports[0].Port != 443 || s.Spec.Ports[0].TargetPort.String() != port {
		t.Errorf("service %+v, the server's port is %s", s.Spec, port)
	}
	if listed, sliced := endpointsOf(t.Context(), t, api); !slices.Equal(listed, []string{"192.0.2.1"}) || !slices.Equal(sliced, listed) {
		t.Errorf("endpoints %v, slice %v", listed, sliced)
	}
	r, err := typed.ServiceCIDRs(api).Get(t.Context(), "", "kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Spec.CIDRs, []string{"10.55.0.0/16"}) || !meta.IsStatusConditionTrue(r.Status.Conditions, "Ready") {
		t.Errorf("range %+v", r)
	}
	web := mustCreate(t, typed.Services(api), newWebService())
	if !strings.HasPrefix(web.Spec.ClusterIP, "10.55.") {
		t.Errorf("another service has %s", web.Spec.ClusterIP)
	}
	for _, namespace := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		if _, err := typed.Namespaces(api).Get(t.Context(), "", namespace); err != nil {
			t.Error(err)
		}
	}
	connection, err := tls.Dial("tcp", cluster.endpoint(t), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	wantNames(t, connection.ConnectionState().PeerCertificates[0], "10.55.0.1", "192.0.2.1", "kubernetes.default.svc.cluster.local")
}

func wantNames(t *testing.T, certificate *x509.Certificate, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := certificate.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}

// TestServersShareTheService: two clusters on one etcd list each other, until one
// is stopped.
func TestServersShareTheService(t *testing.T) {
	store, etcd := externalEtcd(t)
	t.Cleanup(store.Close) // after those that use it
	one := start(t, t.TempDir(), append(slices.Clip(etcd), "--nodes", "0", "--advertise-address", "192.0.2.1")...)
	_, port, err := net.SplitHostPort(one.endpoint(t))
	if err != nil {
		t.Fatal(err)
	}
	two := start(t, t.TempDir(), append(slices.Clip(etcd), "--nodes", "0", "--advertise-address", "192.0.2.2", "--listen", "127.0.0.2:"+port)...)
	api := two.client(t)
	want := func(what string, addresses ...string) {
		t.Helper()
		awaited(t, what, func(ctx context.Context) string {
			if listed, sliced := endpointsOf(ctx, t, api); !slices.Equal(listed, addresses) || !slices.Equal(sliced, addresses) {
				return strings.Join(listed, " ")
			}
			return ""
		})
	}
	want("both", "192.0.2.1", "192.0.2.2")
	one.stop()
	want("one", "192.0.2.2")
}
