package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/plane/nodes"
	authenticationv1 "k8s.io/api/authentication/v1"
)

// A journal keeps log lines.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) add(prefix, line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	fmt.Fprintln(&j.text, prefix, line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// secrets holds the values that must not be in a log, by their description.
type secrets map[string]string

// forms are those in which a secret may show up.
func forms(secret string) []string {
	all := []string{secret, hex.EncodeToString([]byte(secret)), fmt.Sprint([]byte(secret))}
	// Base64 depends on where in the text the secret begins.
	for shift := range 3 {
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			text := encoding.EncodeToString(append(make([]byte, shift), secret...))
			all = append(all, text[4:len(text)-4])
		}
	}
	return all
}

// found returns the lines of text that hold a secret.
func (s secrets) found(text string) []string {
	var found []string
	for line := range strings.Lines(text) {
		for what, secret := range s {
			for _, form := range forms(secret) {
				if strings.Contains(line, form) {
					found = append(found, what+": "+line)
				}
			}
		}
	}
	return found
}

// keysIn adds the private keys in the files below dir.
func (s secrets) keysIn(t *testing.T, dir string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.Contains(path, "/etcd/") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if _, key, ok := strings.Cut(string(data), "PRIVATE KEY-----\n"); ok {
			s["private key in "+entry.Name()] = strings.SplitN(key, "\n", 2)[0]
			n++
		}
		return nil
	})
	if err != nil || n < 3 {
		t.Fatalf("%d private keys, error %v", n, err)
	}
}

// TestNoSecretInLogs plants secrets of every kind, uses all of them in every way, and
// reads the log of the whole cluster at its highest verbosity, which has what all lower
// ones do.
func TestNoSecretInLogs(t *testing.T) {
	planted := secrets{
		"secret": "planted-data-hdkfjw83", "secret as text": "planted-string-owkf92", "secret patched": "planted-patch-kd82js",
		"secret applied": "planted-apply-mx01ls", "secret refused": "planted-refused-q8xmz1", "secret malformed": "planted-malformed-a81mxl",
		"secret too late": "planted-conflict-p01kd8", "pull secret": "planted-pull-dk29sl4", "token of a file": "planted-token-92ksla",
		"wrong token": "planted-wrong-token-1k2ls", "password": "planted-password-x91kl", "wrong password": "planted-wrong-password-3ms",
		"bootstrap token": "0123456789plantd", "wrong bootstrap token": "9999956789plantd", "key of encryption": strings.Repeat("planted-key-8kd2", 2),
	}
	encryption := written(t, "encryption.yaml", "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"+
		"- resources: [secrets]\n  providers:\n  - identity: {}\n  - aesgcm:\n      keys:\n      - {name: k, secret: "+
		base64.StdEncoding.EncodeToString([]byte(planted["key of encryption"]))+"}\n")
	log, dir := &journal{}, t.TempDir()
	cluster := startLogging(t, dir, funcr.New(log.add, funcr.Options{Verbosity: 10}), "--nodes", "1", "-v=10",
		"--enable-bootstrap-token-auth", "--encryption-provider-config", encryption,
		"--token-auth-file", written(t, "tokens.csv", planted["token of a file"]+",jane,1,\"system:masters\"\n"),
		"--basic-auth-file", written(t, "passwords.csv", planted["password"]+",joe,2,\"system:masters\"\n"))
	planted.keysIn(t, dir)
	config, err := kubeconfig.Load(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	admin, _, err := config.Client("")
	if err != nil {
		t.Fatal(err)
	}
	api := cluster.client(t)
	request := &authenticationv1.TokenRequest{}
	granted, err := nodes.RequestTokens(api)(t.Context(), "default", "default", request)
	if err != nil {
		t.Fatal(err)
	}
	planted["service account token"] = granted.Status.Token
	u := &requester{t: t, base: admin.Server, client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	t.Cleanup(u.client.CloseIdleConnections)
	useAll(u, planted)
	awaited(t, "the pod runs", func(ctx context.Context) string {
		answer, err := api.Do(ctx, client.Request{Path: "/api/v1/namespaces/default/pods/user"})
		if err != nil || !strings.Contains(string(answer.Body), `"phase":"Running"`) {
			return fmt.Sprint("not running: ", err)
		}
		return ""
	})
	cluster.stop()
	text := log.String()
	if !strings.Contains(text, "etcd: applyEntryNormal") {
		t.Error("etcd was not heard at its highest verbosity")
	}
	for _, line := range planted.found(text) {
		t.Errorf("the log shows the %.300s", line)
	}
	// The search finds what is there.
	for _, secret := range planted {
		for _, form := range []string{secret, base64.StdEncoding.EncodeToString([]byte("x" + secret + "yz")), hex.EncodeToString([]byte(secret))} {
			if len(planted.found("some "+form+" line\n")) == 0 {
				t.Errorf("%s would not be found", form)
			}
		}
	}
}

// A requester sends requests with one credential or another.
type requester struct {
	t      *testing.T
	base   string
	client *http.Client
}

func (u *requester) do(authorization, method, path, media, body string) int {
	u.t.Helper()
	r, err := http.NewRequestWithContext(u.t.Context(), method, u.base+path, strings.NewReader(body))
	if err != nil {
		u.t.Fatal(err)
	}
	r.Header.Set("Authorization", authorization)
	r.Header.Set("Content-Type", media)
	answer, err := u.client.Do(r)
	if err != nil {
		u.t.Fatal(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

// useAll makes requests that hold the planted secrets and use the planted credentials.
func useAll(u *requester, planted secrets) {
	const path, media = "/api/v1/namespaces/default/secrets", "application/json"
	basic := func(password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte("joe:"+password))
	}
	token := "Bearer " + planted["token of a file"]
	object := func(name, rest string) string {
		return `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"` + name + `"},` + rest + `}`
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(planted["secret"]))
	docker := base64.StdEncoding.EncodeToString([]byte(`{"auths":{"registry.example":{"username":"u","password":"` + planted["pull secret"] + `"}}}`))
	for _, r := range []struct {
		authorization, method, path, media, body string
		code                                     int
	}{
		{token, "POST", path, media, object("a", `"data":{"k":"`+encoded+`"},"stringData":{"s":"`+planted["secret as text"]+`"}`), 201},
		{token, "POST", path, media, object("pull", `"type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":"`+docker+`"}`), 201},
		{token, "POST", "/api/v1/namespaces/kube-system/secrets", media, object("bootstrap-token-abcdef", `"type":"bootstrap.kubernetes.io/token",`+
			`"stringData":{"token-id":"abcdef","token-secret":"`+planted["bootstrap token"]+`","usage-bootstrap-authentication":"true"}`), 201},
		{token, "GET", path + "/a", media, "", 200},
		{token, "GET", path, media, "", 200},
		{token, "GET", path + "?watch=true&timeoutSeconds=1", media, "", 200},
		{token, "PATCH", path + "/a", "application/merge-patch+json", `{"stringData":{"p":"` + planted["secret patched"] + `"}}`, 200},
		{token, "PATCH", path + "/b?fieldManager=m", "application/apply-patch+yaml", object("b", `"stringData":{"p":"`+planted["secret applied"]+`"}`), 201},
		{token, "POST", path, media, object("B A D", `"stringData":{"p":"`+planted["secret refused"]+`"}`), 422},
		{token, "POST", path, media, object("c", `"stringData":{"p":"`+planted["secret malformed"]+`"`), 400},
		{token, "POST", path, media, object("c", `"stringData":["`+planted["secret malformed"]+`"]`), 400},
		{token, "PUT", path + "/a", media, strings.Replace(object("a", `"stringData":{"p":"`+planted["secret too late"]+`"}`), `"name"`, `"resourceVersion":"1","name"`, 1), 409},
		{basic(planted["password"]), "GET", path + "/a", media, "", 200},
		{basic(planted["wrong password"]), "GET", path + "/a", media, "", 401},
		{"Bearer " + planted["wrong token"], "GET", path + "/a", media, "", 401},
		{"Bearer abcdef." + planted["wrong bootstrap token"], "GET", path + "/a", media, "", 401},
		{"Bearer " + planted["service account token"], "GET", path + "/a", media, "", 403},
		{"Bearer " + planted["service account token"] + "x", "GET", path + "/a", media, "", 401},
		{token, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", media,
			`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"` + planted["service account token"] + `"}}`, 201},
		{token, "POST", "/api/v1/namespaces/default/pods", media, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"user"},"spec":{` +
			`"imagePullSecrets":[{"name":"pull"}],"volumes":[{"name":"v","secret":{"secretName":"a"}}],"containers":[{"name":"c","image":"registry.example/nginx:1",` +
			`"env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"a","key":"s"}}}],"volumeMounts":[{"name":"v","mountPath":"/v"}]}]}}`, 201},
		{token, "DELETE", path + "/b", media, "", 200},
	} {
		if code := u.do(r.authorization, r.method, r.path, r.media, r.body); code != r.code {
			u.t.Errorf("%s %s: %d, want %d", r.method, r.path, code, r.code)
		}
	}
	// The authenticator follows secrets.
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		code := u.do("Bearer abcdef."+planted["bootstrap token"], "GET", path+"/a", media, "")
		if code == 403 {
			return
		}
		if time.Now().After(deadline) {
			u.t.Fatalf("with a bootstrap token: %d", code)
		}
	}
}
