package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
)

// serve starts an API server and returns the program as its administrator runs it.
func serve(t *testing.T) (*apiservertest.Server, func(args ...string) result) {
	t.Helper()
	server := apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...))
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, server.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	return server, func(args ...string) result {
		var out, err bytes.Buffer
		code := execute(context.Background(), append([]string{"--kubeconfig=" + path}, args...), environment{
			Out: &out, Err: &err, Getenv: func(string) string { return "" }})
		return result{code, out.String(), err.String()}
	}
}

func check(t *testing.T, got, want result) {
	t.Helper()
	if got != want {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// TestCertificate approves and denies requests.
func TestCertificate(t *testing.T) {
	server, run := serve(t)
	request, err := os.ReadFile("testdata/request.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ann", "ben"} {
		createRequest(t, server, strings.ReplaceAll(string(request), "NAME", name))
	}
	check(t, run("certificate", "approve", "ann"), result{0, "certificatesigningrequest.certificates.k8s.io/ann approved\n", ""})
	check(t, run("certificate", "deny", "ben", "ann"), result{1, "certificatesigningrequest.certificates.k8s.io/ben denied\n", "error: certificate signing request \"ann\" is already Approved\n"})
	check(t, run("certificate", "approve"), result{1, "", "error: one or more CSRs must be specified as <name> or -f <filename>\n"})
	if got := run("get", "csr"); !strings.HasPrefix(got.out, "NAME   AGE   SIGNERNAME") || !strings.Contains(got.out, "Approved") || !strings.Contains(got.out, "Denied") {
		t.Errorf("run(get csr) = %+v, want the columns NAME   AGE   SIGNERNAME first, an Approved and a Denied", got)
	}
}

// TestToken invites nodes.
func TestToken(t *testing.T) {
	server, run := serve(t)
	check(t, run("token", "create", "abcdef.0123456789abcdef", "--ttl=-1s", "--description=for a test"), result{0, "abcdef.0123456789abcdef\n", ""})
	check(t, run("token", "create", "abcdef.0123456789abcdef"), result{1, "", "error: join: invite nodes: the token abcdef exists\n"})
	check(t, run("token", "list"), result{0, "ID       TTL         USAGES                   DESCRIPTION\nabcdef   <forever>   authentication,signing   for a test\n", ""})
	check(t, run("token", "delete", "abcdef"), result{0, "bootstrap token \"abcdef\" deleted\n", ""})
	check(t, run("token", "delete", "abcdef"), result{1, "", "error: join: revoke a token: there is no token abcdef\n"})
	if got := run("token", "create", "--print-join-command"); !strings.HasPrefix(got.out, "--join "+server.URL+" --token ") || !strings.Contains(got.out, " --discovery-token-ca-cert-hash sha256:") {
		t.Errorf("run(token create --print-join-command) = %+v, want --join %s --token first, then --discovery-token-ca-cert-hash sha256:",
			got, server.URL)
	}
}

// createRequest stores the signing request of a manifest.
func createRequest(t *testing.T, server *apiservertest.Server, manifest string) {
	t.Helper()
	answer, err := server.Client().Post(server.URL+"/apis/certificates.k8s.io/v1/certificatesigningrequests", "application/yaml", strings.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		t.Fatalf("created: %s", answer.Status)
	}
}
