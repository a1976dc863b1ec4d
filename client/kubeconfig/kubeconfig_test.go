package kubeconfig_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"sigs.k8s.io/yaml"
)

func Example() {
	k, err := kubeconfig.Parse([]byte(`
apiVersion: v1
kind: Config
current-context: home
clusters:
- name: lab
  cluster: {server: "https://10.0.0.1:6443"}
users:
- name: jane
  user: {token: s3cret}
contexts:
- name: home
  context: {cluster: lab, user: jane, namespace: shop}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	config, namespace, err := k.Client("")
	fmt.Println(config.Server, namespace, err)
	_, _, err = k.Client("work")
	fmt.Println(err)
	// Output:
	// https://10.0.0.1:6443 shop <nil>
	// kubeconfig: context "work": does not exist
}

// keyPair returns a self-signed certificate and its key in PEM form.
func keyPair(t *testing.T) (certificate, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

func sample() *kubeconfig.Config {
	return &kubeconfig.Config{
		CurrentContext: "home",
		Clusters:       map[string]kubeconfig.Cluster{"lab": {Server: "https://h:1"}},
		Users:          map[string]kubeconfig.User{"jane": {}},
		Contexts:       map[string]kubeconfig.Context{"home": {Cluster: "lab", User: "jane"}},
	}
}

func write(t *testing.T, path string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCredentials(t *testing.T) {
	folder := t.TempDir()
	certificate, key := keyPair(t)
	certFile := write(t, filepath.Join(folder, "cert"), certificate)
	keyFile := write(t, filepath.Join(folder, "key"), key)
	tokenFile := write(t, filepath.Join(folder, "token"), []byte("from-file\n"))
	empty := write(t, filepath.Join(folder, "empty"), nil)
	type user = kubeconfig.User
	type cluster = kubeconfig.Cluster
	for name, test := range map[string]struct {
		user    user
		cluster cluster
		check   func(client.Config) bool
		fails   string
	}{
		"nobody":         {check: func(c client.Config) bool { return c.BearerToken == "" && len(c.TLS.Certificates) == 0 }},
		"token":          {user: user{Token: "t"}, check: func(c client.Config) bool { return c.BearerToken == "t" }},
		"token file":     {user: user{Token: "t", TokenFile: tokenFile}, check: func(c client.Config) bool { return c.BearerToken == "from-file" }},
		"files":          {user: user{ClientCertificate: certFile, ClientKey: keyFile}, check: func(c client.Config) bool { return len(c.TLS.Certificates) == 1 }},
		"data":           {user: user{ClientCertificateData: certificate, ClientKeyData: key, ClientKey: "/nowhere"}, check: func(c client.Config) bool { return len(c.TLS.Certificates) == 1 }},
		"ca file":        {cluster: cluster{CertificateAuthority: certFile}, check: func(c client.Config) bool { return c.TLS.RootCAs != nil }},
		"ca data":        {cluster: cluster{CertificateAuthorityData: certificate}, check: func(c client.Config) bool { return c.TLS.RootCAs != nil }},
		"insecure":       {cluster: cluster{InsecureSkipTLSVerify: true, TLSServerName: "x"}, check: func(c client.Config) bool { return c.TLS.InsecureSkipVerify && c.TLS.ServerName == "x" }},
		"missing cert":   {user: user{ClientCertificate: folder + "/no-cert", ClientKey: keyFile}, fails: folder + "/no-cert"},
		"missing key":    {user: user{ClientCertificate: certFile, ClientKey: folder + "/no-key"}, fails: folder + "/no-key"},
		"missing ca":     {cluster: cluster{CertificateAuthority: folder + "/no-ca"}, fails: folder + "/no-ca"},
		"missing token":  {user: user{TokenFile: folder + "/no-token"}, fails: folder + "/no-token"},
		"empty token":    {user: user{TokenFile: empty}, fails: empty},
		"empty cert":     {user: user{ClientCertificate: empty, ClientKey: keyFile}, fails: empty},
		"cert, no key":   {user: user{ClientCertificate: certFile}, fails: "client-key"},
		"key, no cert":   {user: user{ClientKey: keyFile}, fails: "client-certificate"},
		"ca no pem":      {cluster: cluster{CertificateAuthority: tokenFile}, fails: "PEM"},
		"ca, insecure":   {cluster: cluster{CertificateAuthority: certFile, InsecureSkipTLSVerify: true}, fails: "insecure-skip-tls-verify"},
		"proxy":          {cluster: cluster{ProxyURL: "http://p"}, fails: "proxy-url"},
		"exec":           {user: user{Exec: map[string]any{"command": "x"}}, fails: "exec"},
		"auth provider":  {user: user{AuthProvider: map[string]any{"name": "x"}}, fails: "auth-provider"},
		"basic password": {user: user{Username: "u", Password: "s3cret"}, fails: "password"},
		"impersonation":  {user: user{Impersonate: "root"}, fails: "impersonation"},
	} {
		c := sample()
		test.cluster.Server = "https://h:1"
		c.Clusters["lab"], c.Users["jane"] = test.cluster, test.user
		got, namespace, err := c.Client("home")
		switch {
		case test.fails != "":
			if err == nil || !strings.Contains(err.Error(), test.fails) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: Client: %v, want an error with %q and without the password", name, err, test.fails)
			}
			if !reflect.DeepEqual(got, client.Config{}) {
				t.Errorf("%s: a config beside the error", name)
			}
		case err != nil || namespace != "default" || got.Server != "https://h:1" || !test.check(got):
			t.Errorf("%s: Client = %+v, %q, %v, want the server https://h:1, the namespace default and what the case checks",
				name, got, namespace, err)
		}
	}
}

func TestMissingNames(t *testing.T) {
	c := sample()
	c.Contexts["a"] = kubeconfig.Context{Cluster: "no-cluster", User: "jane"}
	c.Contexts["b"] = kubeconfig.Context{Cluster: "lab", User: "no-user"}
	c.CurrentContext = ""
	for context, want := range map[string]string{"": "no current context", "x": `"x"`, "a": `"no-cluster"`, "b": `"no-user"`} {
		if _, _, err := c.Client(context); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Client(%q): %v, want an error with %s", context, err, want)
		}
	}
}

func TestLoadAndWrite(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "config")
	c := sample()
	c.Users["jane"] = kubeconfig.User{ClientCertificateData: []byte{0, 1, 2}, ClientKey: "keys/jane", Token: "t",
		Exec: map[string]any{"command": "x", "args": []any{"y"}}}
	c.Clusters["lab"] = kubeconfig.Cluster{Server: "https://h:1", CertificateAuthority: "/abs/ca"}
	write(t, path, []byte("old"))
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.Write(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("Write left the file %+v, %v, want the mode 384 (0600)", info, err)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 1 {
		t.Errorf("left behind: %v %v", files, err)
	}
	got, err := kubeconfig.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	want := c.Users["jane"]
	want.ClientKey = filepath.Join(folder, "keys/jane")
	c.Users["jane"] = want
	if !reflect.DeepEqual(got, c) {
		t.Errorf("%+v, want %+v", got, c)
	}
	if err := c.Write(filepath.Join(folder, "none", "config")); err == nil {
		t.Error("writing into a missing folder succeeds")
	}
	missing := filepath.Join(folder, "missing")
	if _, err := kubeconfig.Load(missing); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestLoadAll(t *testing.T) {
	folder := t.TempDir()
	a, b, missing := filepath.Join(folder, "a"), filepath.Join(folder, "b"), filepath.Join(folder, "c")
	first, second := sample(), sample()
	first.CurrentContext = ""
	second.Clusters["lab"] = kubeconfig.Cluster{Server: "https://second:1"}
	second.Clusters["other"] = kubeconfig.Cluster{Server: "https://other:1"}
	if err := errors.Join(first.Write(a), second.Write(b)); err != nil {
		t.Fatal(err)
	}
	m, err := kubeconfig.LoadAll("", missing, a, b)
	if err != nil || m.CurrentContext != "home" || m.Clusters["lab"].Server != "https://h:1" || m.Clusters["other"].Server != "https://other:1" {
		t.Errorf("LoadAll = %+v, %v, want the current context home, lab at https://h:1, other at https://other:1", m, err)
	}
	if _, err := kubeconfig.LoadAll(missing); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("only missing files: %v", err)
	}
	write(t, a, []byte("clusters: 1"))
	if _, err := kubeconfig.LoadAll(a, b); err == nil || !strings.Contains(err.Error(), a) {
		t.Errorf("a broken file: %v", err)
	}
}

func TestParse(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "{}": true, "kind: Config": true, "kind: Pod": false, "apiVersion: v2": false,
		"clusters: x": false, "clusters: [{name: 1}]": false, "\t": false,
		"users: [{name: a, user: {client-key-data: '!'}}]":                       false,
		"clusters: [{name: a, extra: 1, cluster: {server: x, extensions: []}}]":  true,
		"users: [{name: a, user: {token: x}}, {name: a, user: {token: second}}]": true,
	} {
		c, err := kubeconfig.Parse([]byte(text))
		if (err == nil) != ok {
			t.Errorf("Parse(%q): %v, want no error: %v", text, err, ok)
		}
		if err == nil && strings.Contains(text, "second") && c.Users["a"].Token != "x" {
			t.Errorf("%q: the second counts", text)
		}
	}
}

// FuzzParse shows that a parsed file can be written and parsed again unchanged.
func FuzzParse(f *testing.F) {
	f.Add([]byte("clusters: [{name: a, cluster: {server: x}}]\ncurrent-context: a\n"))
	f.Add([]byte("users:\n- name: a\n  user:\n    exec: {command: x}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.ContainsAny(data, "&*") {
			return // aliases can grow without bound, which is not tested here
		}
		c, err := kubeconfig.Parse(data)
		if err != nil {
			return
		}
		once, err := c.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := kubeconfig.Parse(once)
		if err != nil {
			t.Fatalf("%v in\n%s", err, once)
		}
		twice, err := again.Marshal()
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("%s\nbecame\n%s\n%v", once, twice, err)
		}
		var plain map[string]any
		if err := yaml.Unmarshal(once, &plain); err != nil || plain["kind"] != "Config" {
			t.Fatalf("Marshal wrote %s: %v, want YAML with the kind Config", once, err)
		}
	})
}

// TestConnectErrors: a file that is not there, or not named, is an error that says so.
func TestConnectErrors(t *testing.T) {
	for file, want := range map[string]string{"": "is KUBECONFIG set?", filepath.Join(t.TempDir(), "none"): "none: no such file"} {
		if _, err := kubeconfig.Connect(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", file, err, want)
		}
	}
}
