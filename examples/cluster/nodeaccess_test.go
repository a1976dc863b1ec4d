package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/pki"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const planted = "cGxhbnRlZC1zZWNyZXQ" // base64 of planted-secret

// plantSecret stores a secret whose value in JSON is planted.
func plantSecret(t *testing.T, api *client.Client) {
	t.Helper()
	mustCreate(t, typed.Secrets(api), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "planted"}, Data: map[string][]byte{"k": []byte("planted-secret")},
	})
}

// grant lets a user do verbs on resources of the core group, everywhere.
func grant(t *testing.T, api *client.Client, name string, verbs []string, resources ...string) {
	t.Helper()
	mustCreate(t, typed.ClusterRoles(api), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: resources, Verbs: verbs}},
	})
	mustCreate(t, typed.ClusterRoleBindings(api), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	})
}

// person is a user with a certificate of the cluster's authority.
type person struct {
	server string
	tls    *tls.Config
}

func (r *running) as(t *testing.T, dir, name string) person {
	t.Helper()
	authority, err := pki.Open(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Client("test-"+name, name)
	if err != nil {
		t.Fatal(err)
	}
	return r.with(t, pair)
}

func (r *running) with(t *testing.T, pair *pki.Pair) person {
	t.Helper()
	file, err := kubeconfig.Load(r.config)
	if err != nil {
		t.Fatal(err)
	}
	config, _, err := file.Client("")
	if err != nil {
		t.Fatal(err)
	}
	return person{
		server: strings.TrimPrefix(config.Server, "https://"),
		tls:    &tls.Config{RootCAs: config.TLS.RootCAs, Certificates: []tls.Certificate{pair.TLS()}},
	}
}

// ask sends a request with just that path, and returns the code and the body.
func (p person) ask(t *testing.T, method, path string, headers ...string) (int, string) {
	t.Helper()
	conn, err := tls.Dial("tcp", p.server, p.tls)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience / 3))
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: api\r\nContent-Length: 0\r\n%s\r\n", method, path, strings.Join(append(headers, ""), "\r\n"))
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode == http.StatusSwitchingProtocols {
		return answer.StatusCode, ""
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// until repeats the request until the response contains text, because a grant takes effect a
// little after its write.
func (p person) until(t *testing.T, path, text string) {
	t.Helper()
	awaited(t, path, func(context.Context) string {
		_, body := p.ask(t, "GET", path)
		if strings.Contains(body, text) {
			return ""
		}
		return body
	})
}

// liar stores a node whose kubelet is said to listen at host and port.
func liar(t *testing.T, api *client.Client, name, host string, port int32) {
	t.Helper()
	mustCreate(t, typed.Nodes(api), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	awaited(t, "the node's status", func(ctx context.Context) string { // controllers write to it too
		node, err := typed.Nodes(api).Get(ctx, "", name)
		if err != nil {
			return err.Error()
		}
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = port
		_, err = typed.Nodes(api).UpdateStatus(ctx, node)
		return text(err)
	})
}

const nodesPath = "/api/v1/nodes/"

// TestNodesThatLie: a node that gives the address of the API server or of another
// node as its own leads to neither.
func TestNodesThatLie(t *testing.T) {
	dir := t.TempDir()
	cluster := start(t, dir, "--storage", "memory", "--listen", "0.0.0.0:0")
	admin := cluster.client(t)
	plantSecret(t, admin)
	grant(t, admin, "mallory", []string{"get"}, "nodes/proxy")
	mallory := cluster.as(t, dir, "mallory")
	_, text, err := net.SplitHostPort(mallory.server)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	real, err := typed.Nodes(admin).Get(t.Context(), "", "node-1")
	if err != nil {
		t.Fatal(err)
	}
	mallory.until(t, nodesPath+"node-1/proxy/pods", `"kind":"PodList"`)
	kubelet := real.Status.Addresses[0].Address
	for name, to := range map[string]struct {
		host string
		port int
	}{
		"host":        {kubelet, port},
		"loopback":    {"127.0.0.1", port},
		"loopback-2":  {"127.0.0.2", port},
		"loopback-6":  {"::ffff:127.0.0.1", port},
		"unspecified": {"0.0.0.0", port},
		"localhost":   {"localhost", port},
		"link-local":  {"169.254.169.254", 80},
		"other-node":  {kubelet, int(real.Status.DaemonEndpoints.KubeletEndpoint.Port)},
	} {
		liar(t, admin, name, to.host, int32(to.port))
		for _, path := range []string{"api/v1/secrets", "pods"} {
			code, got := mallory.ask(t, "GET", nodesPath+name+"/proxy/"+path)
			if code < 400 || strings.Contains(got, planted) {
				t.Errorf("node %s, %s: %d %.200s", name, path, code, got)
			}
		}
	}
}

// TestKubeletClient: the certificate that the API server shows to kubelets may do
// everything there, reads no secrets at the API server, and one of an older cluster
// that is in system:masters is made again.
func TestKubeletClient(t *testing.T) {
	dir := t.TempDir()
	authority, err := pki.Open(filepath.Join(dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Client("apiserver-kubelet-client", "kube-apiserver-kubelet-client", user.Masters); err != nil {
		t.Fatal(err)
	}
	cluster := start(t, dir, "--storage", "memory")
	admin := cluster.client(t)
	plantSecret(t, admin)
	shown := readPair(t, dir, "apiserver-kubelet-client")
	if groups := shown.Leaf.Subject.Organization; len(groups) > 0 {
		t.Errorf("the certificate is of the groups %q", groups)
	}
	api := cluster.as(t, dir, "nobody")
	api.tls.Certificates = []tls.Certificate{shown}
	for _, path := range []string{
		"/api/v1/secrets", "/api/v1/namespaces/default/secrets/planted", "/api/v1/pods", "/api/v1/namespaces/kube-system/configmaps",
		"/apis/rbac.authorization.k8s.io/v1/clusterroles",
	} {
		if code, got := api.ask(t, "GET", path); code != http.StatusForbidden {
			t.Errorf("GET %s by the kubelet client certificate = %d %.200s, want 403", path, code, got)
		}
	}
	if _, err := admin.Do(t.Context(), client.Request{Path: nodesPath + "node-1/proxy/pods"}); err != nil {
		t.Errorf("a kubelet refuses it: %v", err)
	}
	// The kubelets' certificates name their nodes.
	serving := readPair(t, dir, filepath.Join("kubelet-serving", "kubelet-node-1")).Leaf
	if err := serving.CheckSignatureFrom(authority.Certificate); err == nil {
		t.Error("clients of the API server trust a kubelet's serving certificate")
	}
	node, err := typed.Nodes(admin).Get(t.Context(), "", "node-1")
	if err != nil {
		t.Fatal(err)
	}
	if serving.Subject.CommonName != "system:node:node-1" || !slices.Equal(serving.Subject.Organization, []string{"system:nodes"}) {
		t.Errorf("subject %s", serving.Subject)
	}
	for _, address := range node.Status.Addresses {
		if err := serving.VerifyHostname(address.Address); err != nil {
			t.Error(err)
		}
	}
	// It serves only: it does not authenticate the node as a client.
	if slices.Contains(serving.ExtKeyUsage, x509.ExtKeyUsageClientAuth) {
		t.Error("a serving certificate is one of a client too")
	}
}

func readPair(t *testing.T, dir, name string) tls.Certificate {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "pki", name+".crt"), filepath.Join(dir, "pki", name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// TestKubeletsWithoutRBAC: kubelets let the API server in where users are judged by
// an authorizer that knows nothing of its certificate.
func TestKubeletsWithoutRBAC(t *testing.T) {
	var policy strings.Builder
	for _, subject := range []string{`"user":"system:kube-controller-manager"`, `"user":"system:kube-scheduler"`, `"group":"system:nodes"`, `"group":"system:serviceaccounts"`} {
		fmt.Fprintf(&policy, `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{%s,"namespace":"*","resource":"*","apiGroup":"*"}}`+"\n", subject)
	}
	cluster := start(t, t.TempDir(), "--storage", "memory", "--authorization-mode", "ABAC", "--authorization-policy-file", written(t, "policy", policy.String()))
	if _, err := cluster.client(t).Do(t.Context(), client.Request{Path: nodesPath + "node-1/proxy/pods"}); err != nil {
		t.Error(err)
	}
}

// TestExecByNodesProxy checks that a user with nothing but get on nodes/proxy runs no command by
// it, with any method and any spelling of the path.
func TestExecByNodesProxy(t *testing.T) {
	dir := t.TempDir()
	cluster := start(t, dir, "--storage", "memory")
	admin := cluster.client(t)
	grant(t, admin, "reader", []string{"get", "update", "patch", "delete"}, "nodes/proxy")
	grant(t, admin, "runner", []string{"create"}, "nodes/proxy")
	reader, runner := cluster.as(t, dir, "reader"), cluster.as(t, dir, "runner")
	reader.until(t, nodesPath+"node-1/proxy/pods", `"kind":"PodList"`)
	runner.until(t, nodesPath+"node-1/proxy/pods", `cannot get resource`)
	const webSocket = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="
	for _, path := range []string{
		"exec/default/web/c?command=id&output=1", "exec/default/web/c/", "attach/default/web/c", "run/default/web/c?cmd=id", "portForward/default/web",
		"Exec/default/web/c", "portforward/default/web", "%65xec/default/web/c", "exec", "exec/", "cri/exec/token",
	} {
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE"} {
			code, got := reader.ask(t, method, nodesPath+"node-1/proxy/"+path, webSocket)
			if code != http.StatusForbidden || method != "HEAD" && !strings.Contains(got, `cannot create resource \"nodes/proxy\"`) {
				t.Errorf("%s %s by a reader: %d %s", method, path, code, got)
			}
		}
		if code, got := runner.ask(t, "GET", nodesPath+"node-1/proxy/"+path, webSocket); code == http.StatusForbidden {
			t.Errorf("%s by a runner: %s", path, got)
		}
	}
	for _, path := range []string{
		"/exec/default/web/c", "./exec/default/web/c", "x/../exec/default/web/c", "%2e/exec/default/web/c", "%252e%252e/exec", "pods/..%2fexec/default", `%5cexec`,
	} {
		if code, got := reader.ask(t, "GET", nodesPath+"node-1/proxy/"+path, webSocket); code != http.StatusBadRequest {
			t.Errorf("GET proxy/%s by a reader = %d %s, want 400", path, code, got)
		}
	}
}
