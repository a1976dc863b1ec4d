package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/authn/serviceaccount"
)

const structuredHeader = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"

// anIssuer is an OpenID Connect issuer over TLS: that of the service accounts of
// another cluster.
type anIssuer struct {
	url, ca string
	signer  *serviceaccount.Signer
}

func startIssuer(t *testing.T) anIssuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := serviceaccount.NewKeySet(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	for path, handler := range serviceaccount.Handlers(server.URL, server.URL+serviceaccount.JWKSPath, keys) {
		mux.Handle(path, handler)
	}
	signer, err := serviceaccount.NewSigner(server.URL, key)
	if err != nil {
		t.Fatal(err)
	}
	return anIssuer{server.URL, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), signer}
}

func (i anIssuer) token(t *testing.T, namespace, name string) string {
	t.Helper()
	token, err := i.signer.Sign(serviceaccount.Grant{Namespace: namespace, Account: serviceaccount.Ref{Name: name, UID: "17"}, Audiences: []string{"here"}, Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// entry is the issuer in the configuration, with more below it.
func (i anIssuer) entry(more string) string {
	return "- issuer:\n    url: " + i.url + "\n    audiences: [here]\n    certificateAuthority: |\n      " +
		strings.ReplaceAll(strings.TrimSpace(i.ca), "\n", "\n      ") + "\n" + more
}

// TestIssuersByFile accepts the tokens of two issuers, one by a claim and one by expressions,
// and requests without credentials only for the paths in the file.
func TestIssuersByFile(t *testing.T) {
	one, two := startIssuer(t), startIssuer(t)
	file := structuredHeader + "jwt:\n" +
		one.entry("  claimMappings: {username: {claim: sub, prefix: 'one:'}}\n") +
		two.entry("  claimMappings:\n    username: {expression: '\"two:\" + claims.kubernetes__dot__io.serviceaccount.name'}\n"+
			"    groups: {expression: '[\"of:\" + claims.kubernetes__dot__io.namespace]'}\n"+
			"  userValidationRules: [{expression: \"user.groups != ['of:kube-system']\", message: 'none of these'}]\n") +
		"anonymous:\n  enabled: true\n  conditions: [{path: /livez}]\n"
	cluster := start(t, t.TempDir(), "--storage", "memory", "--nodes", "0", "--authentication-config", written(t, "issuers.yaml", file))
	first := visitor{name: "first issuer", header: "Bearer " + one.token(t, "shop", "web")}
	for deadline := time.Now().Add(patience); ; { // until the keys have been found
		if _, who := first.get(t, cluster, "/livez"); who != "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the issuer is not believed")
		}
	}
	const pods = "/api/v1/namespaces/default/pods"
	for _, test := range []struct {
		visitor
		path string
		code int
		who  string
	}{
		{first, pods, 403, "one:system:serviceaccount:shop:web"},
		{visitor{name: "second issuer", header: "Bearer " + two.token(t, "shop", "web")}, pods, 403, "two:web"},
		{visitor{name: "whom a rule refuses", header: "Bearer " + two.token(t, "kube-system", "web")}, pods, 401, ""},
		{visitor{name: "a stranger's token", header: "Bearer " + startIssuer(t).token(t, "shop", "web")}, pods, 401, ""},
		{visitor{name: "nobody"}, "/livez", 200, ""},
		{visitor{name: "nobody"}, "/readyz", 401, ""},
		{visitor{name: "nobody"}, pods, 401, ""},
	} {
		code, who := test.get(t, cluster, test.path)
		if code != test.code || who != test.who {
			t.Errorf("%s: GET %s is %d by %q, want %d by %q", test.name, test.path, code, who, test.code, test.who)
		}
	}
}
