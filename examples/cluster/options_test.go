package main

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func parse(arguments ...string) (options, error) {
	var o options
	flags := pflag.NewFlagSet("cluster", pflag.ContinueOnError)
	o.add(flags)
	if err := flags.Parse(arguments); err != nil {
		return o, err
	}
	return o, o.complete()
}

func TestOptionsDefaults(t *testing.T) {
	o, err := parse("--data-dir", "/var/lib/planekit")
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join("/var/lib/planekit", "admin.kubeconfig"); o.kubeconfig != want {
		t.Errorf("kubeconfig %s, want %s", o.kubeconfig, want)
	}
	if o.listen != "127.0.0.1:6443" || o.nodes != 1 || o.runtime != "auto" || o.flags.Lookup("storage").Value.String() != "etcd" {
		t.Errorf("unexpected defaults: %+v", o)
	}
}

func TestOptionsRefused(t *testing.T) {
	for _, test := range []struct {
		arguments, want string
	}{
		{"--runtime docker", `--runtime must be one of [auto containerd fake], not "docker"`},
		{"--storage disk", "--storage must be one of"},
		{"--offline-images maybe", "--offline-images must be one of"},
		{"--listen 6443", "--listen: address 6443: missing port"},
		{"--cluster-cidr any", `--cluster-cidr must be auto or an IPv4 range of at least a /24, not "any"`},
		{"--cluster-cidr fd00::/48", "--cluster-cidr must be auto or an IPv4 range"},
		{"--cluster-cidr 10.9.0.0/23 --nodes 3", "--nodes must be between 0 and 2, not 3"},
		{"--load-balancer-cidr 192.0.2.1/28", `--load-balancer-cidr must have ranges such as 192.0.2.0/28, not "192.0.2.1/28"`},
		{"--load-balancer-cidr 10.97.0.0/28", "--load-balancer-cidr 10.97.0.0/28 overlaps 10.96.0.0/12 of --service-cluster-ip-range"},
		{"--load-balancer-cidr 10.9.0.0/28 --cluster-cidr 10.9.0.0/16", "overlaps 10.9.0.0/16 of --cluster-cidr"},
		{"--load-balancer-cidr 192.0.2.0/28,192.0.2.8/29", "--load-balancer-cidr 192.0.2.8/29 overlaps 192.0.2.0/28 of --load-balancer-cidr"},
		{"--nodes -1", "--nodes must be between 0 and 256"},
		{"--eviction-hard memory.free<1", "--eviction-hard: eviction: hard eviction: memory.free: is not a signal"},
		{"--eviction-hard memory.available", "--eviction-hard: eviction: \"memory.available\" is not of the form"},
		{"--nodes 0 --pod-manifest-path m", "--pod-manifest-path needs a node"},
		{"--nodes 300", "--nodes must be between 0 and 256"},
		{"--nodes 2 --containerd-socket /run/x.sock", "use --nodes 1"},
		{"--runtime fake --containerd-socket /run/x.sock", "exclude each other"},
		{"--registry-mirror 10.0.0.1:5000", `--registry-mirror must be a URL such as http://10.0.0.1:5000, not "10.0.0.1:5000"`},
		{"--registry-mirror http://h:1 --containerd-socket /run/x.sock", "--containerd-socket and --registry-mirror exclude each other"},
		{"--registry-mirror http://h:1 --offline-images on", "--offline-images on and --registry-mirror exclude each other"},
		{"--etcd-servers https://h:2379 --storage memory", "exclude each other"},
		{"--etcd-certfile c", "go together"},
		{"--audit-policy-file p", "go together"},
		{"--authorization-mode RBAC,RBAC", "has RBAC twice"},
		{"--authorization-mode Rbac", `"Rbac" is none of`},
		{"--authorization-mode=", "must name at least one"},
		{"--authorization-mode ABAC", "--authorization-mode=ABAC and --authorization-policy-file go together"},
		{"--authorization-webhook-config-file f", "go together"},
		{"--authorization-mode AlwaysAllow", "--anonymous-auth=false is needed"},
		{"--oidc-issuer-url https://i", "go together"},
		{"--authentication-config f --oidc-signing-algs RS256", "--authentication-config and the --oidc-* flags are mutually exclusive"},
		{"--authentication-config f --oidc-issuer-url https://i --oidc-client-id c", "mutually exclusive"},
		{"--service-account-max-token-expiration 10m", "must be at least an hour"},
		{"--requestheader-client-ca-file f", "go together"},
	} {
		if _, err := parse(strings.Fields(test.arguments)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.arguments, err, test.want)
		}
	}
}

// TestMirror: nodes of each role pull from the registry that --registry-mirror names, unless they cannot reach it.
func TestMirror(t *testing.T) {
	gateway := netip.MustParseAddr("10.199.0.1")
	for _, test := range []struct {
		mirror  string
		gateway netip.Addr // valid if nodes are machines
		want    string     // empty means an error
	}{
		{"http://10.0.0.1:5000", netip.Addr{}, "http://10.0.0.1:5000"},
		{"http://10.0.0.1:5000", gateway, "http://10.0.0.1:5000"},
		{"http://127.0.0.1:5000", netip.Addr{}, "http://127.0.0.1:5000"},
		{"http://127.0.0.1:5000", gateway, ""},
		{"http://[::1]:5000", gateway, ""},
		{"https://localhost", gateway, ""},
	} {
		c := cluster{options: options{registryMirror: test.mirror}, runtime: "containerd", gateway: test.gateway}
		mirrors, err := c.mirrors(t.Context(), nil)
		if got := mirrors["registry.k8s.io"]; got != test.want || mirrors["docker.io"] != got || (err == nil) != (test.want != "") {
			t.Errorf("mirrors of --registry-mirror %s with the gateway %v: %v, %v, want %q", test.mirror, test.gateway, mirrors, err, test.want)
		}
	}
}
