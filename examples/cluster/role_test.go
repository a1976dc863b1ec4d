package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/admission/unsupported"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/examples/cluster/machine"
	"github.com/planekit/planekit/pki"
)

// startServer runs a control plane without nodes on dir.
func startServer(t *testing.T, dir string, arguments ...string) *running {
	t.Helper()
	return startRole(t, testr.New(t), append([]string{"--role", "server", "--data-dir", dir, "--listen", "127.0.0.1:0"}, arguments...)...)
}

// nodeFlags writes the credentials of a node of the cluster on dir, and returns the flags that name them.
func nodeFlags(t *testing.T, dir, admin, name string) []string {
	t.Helper()
	authority, err := pki.Open(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	administrator, err := kubeconfig.Load(admin)
	if err != nil {
		t.Fatal(err)
	}
	own, err1 := authority.Client("node-"+name, user.NodePrefix+name, user.Nodes)
	_, err2 := authority.Kubelet(name, machine.HostAddress(netip.Prefix{}).String())
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for key := range administrator.Users {
		administrator.Users[key] = kubeconfig.User{ClientCertificateData: own.CertificatePEM, ClientKeyData: own.KeyPEM}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := administrator.Write(file); err != nil {
		t.Fatal(err)
	}
	return []string{
		"--kubeconfig", file,
		"--tls-cert-file", filepath.Join(dir, "pki", "kubelet-"+name+".crt"), "--tls-private-key-file", filepath.Join(dir, "pki", "kubelet-"+name+".key"),
	}
}

// startFakeNode runs a node without real containers.
func startFakeNode(t *testing.T, name string, arguments ...string) *running {
	t.Helper()
	return startRole(t, testr.New(t), append([]string{
		"--role", "node", "--data-dir", t.TempDir(), "--runtime", "fake", "--node-name", name, "--kubelet-port", "0",
	}, arguments...)...)
}

// TestRoles runs a control plane and two nodes of it, which meet over TLS alone: pods run on both, and
// their logs are read through the API server.
func TestRoles(t *testing.T) {
	dir := t.TempDir()
	server := startServer(t, dir, "--storage", "memory")
	for _, name := range []string{"far-1", "far-2"} {
		startFakeNode(t, name, nodeFlags(t, dir, server.config, name)...)
	}
	api := server.client(t)
	for _, node := range []string{"far-1", "far-2"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "on-" + node}}
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
		pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx"}}
		mustCreate(t, typed.Pods(api), pod)
		awaited(t, pod.Name+" runs", func(ctx context.Context) string {
			got, err := typed.Pods(api).Get(ctx, "default", pod.Name)
			if err != nil || got.Status.Phase != corev1.PodRunning {
				return fmt.Sprint(got.Status, err)
			}
			return ""
		})
		if _, err := api.Do(t.Context(), client.Request{Path: "/api/v1/namespaces/default/pods/" + pod.Name + "/log"}); err != nil {
			t.Errorf("logs of %s: %v", pod.Name, err)
		}
	}
}

// TestUnusedFlags: a flag that a role does not use is refused by name.
func TestUnusedFlags(t *testing.T) {
	for _, test := range []struct{ arguments, want string }{
		{"--role master", `--role must be one of [all server node], not "master"`},
		{"--role server --nodes 3 --runtime fake", "--role server does not use --nodes, --runtime"},
		{"--role server --node-name n", "--role server does not use --node-name"},
		{"--role node --listen 127.0.0.1:1 --etcd-servers http://e", "--role node does not use --etcd-servers, --listen"},
		{"--role node --authorization-mode RBAC", "--role node does not use --authorization-mode"},
		{"--role node --nodes 1", "--role node does not use --nodes"},
		{"--node-ip 10.0.0.1", "--role all does not use --node-ip"},
		{"--role node", "--role node needs --join, or --kubeconfig"},
		{"--role node --kubeconfig f", "needs --tls-cert-file and --tls-private-key-file"},
		{"--role node --kubeconfig f --tls-cert-file c --tls-private-key-file k --kubelet-port 70000", "--kubelet-port must be between"},
		{"--role node --kubeconfig f --join https://s", "--join excludes --kubeconfig"},
		{"--role node --join https://s --token t --token-file f", "--token and --token-file exclude each other"},
		{"--role node --token t --kubeconfig f", "need --join"},
		{"--role server --token t", "--role server does not use --token"},
		{"--role node --kubeconfig f --node-ip ten", "--node-ip"},
	} {
		if _, err := parse(strings.Fields(test.arguments)...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.arguments, err, test.want)
		}
	}
}

// TestJoin adds a node with the command that a server prints, and again without a token, with the credentials that
// it got.
func TestJoin(t *testing.T) {
	const mirror = "http://10.0.0.1:5000"
	server := startServer(t, t.TempDir(), "--storage", "memory", "--registry-mirror", mirror)
	dir := t.TempDir()
	command := server.invitation(t)
	if !strings.HasSuffix(command, " --registry-mirror "+mirror) {
		t.Errorf("the command that adds a node is %q, want it with --registry-mirror %s", command, mirror)
	}
	arguments := append(strings.Fields(command)[3:], "--data-dir", dir) // after the program and its role
	begin := time.Now()
	first := startFakeNode(t, "joined", arguments...)
	t.Logf("joined after %v", time.Since(begin))
	api := server.client(t)
	mustCreate(t, typed.Pods(api), podOf("web", "nginx"))
	path := "/api/v1/namespaces/default/pods/web/log"
	awaited(t, "logs", func(ctx context.Context) string { // once the serving certificate is issued
		_, err := api.Do(ctx, client.Request{Path: path})
		return text(err)
	})
	first.stop()
	at := slices.Index(arguments, "--token")
	startFakeNode(t, "joined", slices.Delete(slices.Clone(arguments), at, at+2)...)
	awaited(t, "logs of the node that starts again", func(ctx context.Context) string {
		_, err := api.Do(ctx, client.Request{Path: path})
		return text(err)
	})
}

// TestJoinRefused: a node of another authority, or with an unknown token, does not join.
func TestJoinRefused(t *testing.T) {
	server := startServer(t, t.TempDir(), "--storage", "memory")
	arguments := strings.Fields(server.invitation(t))[1:]
	for flag, value := range map[string]string{
		"--token": "aaaaaa.0123456789abcdef", "--discovery-token-ca-cert-hash": "sha256:" + strings.Repeat("0", 64),
	} {
		wrong := slices.Clone(arguments)
		wrong[slices.Index(wrong, flag)+1] = value
		o, err := parse(append(wrong, "--runtime", "fake", "--data-dir", t.TempDir(), "--node-name", "wrong", "--kubelet-port", "0")...)
		if err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), o, io.Discard, testr.New(t)); err == nil || !strings.HasPrefix(err.Error(), "join: ") {
			t.Errorf("run with %s %s = %v, want an error that starts with %q", flag, value, err, "join: ")
		}
	}
	if nodes, _, err := typed.Nodes(server.client(t)).List(t.Context(), "", metav1.ListOptions{}); err != nil || len(nodes) > 0 {
		t.Errorf("nodes %v: %v", nodes, err)
	}
}

// TestUnsupportedByRole: nodes in processes of their own make the addresses and names of services lead to pods, and enforce
// policies.
func TestUnsupportedByRole(t *testing.T) {
	for role, want := range map[string]bool{roleAll: true, roleServer: false} {
		c := &cluster{options: options{role: role}, runtime: "fake"}
		paths := map[string]bool{}
		for _, row := range c.unsupported() {
			switch row.In {
			case "services", unsupported.Pods:
				paths[row.Path] = true
			case "networkpolicies.networking.k8s.io":
				paths[row.In] = true
			}
		}
		for _, path := range []string{"spec.clusterIP", "spec.ports[].nodePort", "spec.externalName", "subdomain", "networkpolicies.networking.k8s.io"} {
			if paths[path] != want {
				t.Errorf("role %s: %s is in the table: %v", role, path, paths[path])
			}
		}
		for _, path := range balancerFields {
			if !paths[path] {
				t.Errorf("role %s: %s is not in the table", role, path)
			}
		}
		c.options.balancerPool = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28")}
		for _, row := range c.unsupported() {
			if row.In == "services" && (slices.Contains(givenFields, row.Path) || role == roleServer) {
				t.Errorf("role %s with addresses of load balancers: %s is in the table", role, row.Path)
			}
		}
	}
}
