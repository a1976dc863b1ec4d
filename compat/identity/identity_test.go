package identity

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/structured"
	"github.com/planekit/planekit/compat/pair"
	"github.com/planekit/planekit/compat/stock"
	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/planetest"
)

var (
	pairs    = flag.Int("pairs", 400, "try this many pairs of changes of each issuer's tokens")
	products = flag.Int("products", 400, "try this many products of headers from each sender")
	seed     = flag.Uint64("seed", 1, "which ones")
	programs = flag.String("programs", "", "directory of kube-apiserver and etcd; they are built if it is empty")
)

// A side is one of the two servers, with a client for each certificate.
type side struct {
	name, url string
	clients   map[string]*http.Client
}

// A sender shows a certificate, or none.
type sender struct {
	name string
	pair *pki.Pair
}

// servers starts both with the same authorities and issuers.
func servers(t *testing.T, i *issuers) (theirs, ours *side, senders []sender) {
	t.Helper()
	people, err := structured.New(structured.Config{Read: func() ([]byte, error) { return []byte(i.configuration()), nil }})
	if err != nil {
		t.Fatalf("structured.New(%s) = %v, want an authenticator", i.configuration(), err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- people.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v, want no error", err)
		}
	})
	p := planetest.Start(t, planetest.With(func(c *plane.Config) {
		c.NoControllers, c.NoScheduler, c.BareNamespaces = true, true, true
		c.Authenticators = []authn.Authenticator{people}
	}))
	access := p.REST("admin", "system:masters")
	senders = certificates(t, p)
	ours = newSide("planekit", access.Host, senders, func() *http.Transport { return &http.Transport{DialContext: access.Dial} })

	dir, bin := t.TempDir(), *programs
	if bin == "" {
		if bin, err = stock.Build(t.Context()); err != nil {
			t.Fatalf("stock.Build = %v, want the programs", err)
		}
	}
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatalf("write %s: %v", name, err)
		}
		return path
	}
	reference := stock.NewServer(t, bin, "--client-ca-file", file("clients.pem", p.Credentials.Authority.CertificatePEM),
		"--requestheader-client-ca-file", file("front.pem", p.Credentials.FrontProxy.CertificatePEM), "--requestheader-allowed-names", "front-proxy-client",
		"--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group", "--requestheader-uid-headers", "X-Remote-Uid",
		"--requestheader-extra-headers-prefix", "X-Remote-Extra-", "--authentication-config", file("issuers.yaml", []byte(i.configuration())))
	theirs = newSide("kube-apiserver", reference.URL, senders, func() *http.Transport { return &http.Transport{} })
	return theirs, ours, senders
}

// certificates makes those of the senders.
func certificates(t *testing.T, p *planetest.Plane) []sender {
	t.Helper()
	out := []sender{{name: "nobody"}}
	for _, s := range []struct {
		name, common string
		authority    *pki.Authority
		groups       []string
	}{
		{"the administrator", "admin", p.Credentials.Authority, []string{"system:masters"}},
		{"the front proxy", "front-proxy-client", p.Credentials.FrontProxy, nil},
		{"another name of the proxies' authority", "jane", p.Credentials.FrontProxy, nil},
		{"the proxy's name of the clients' authority", "front-proxy-client", p.Credentials.Authority, nil},
		{"a user who may impersonate", "impersonator", p.Credentials.Authority, []string{"staff"}},
		{"a user with constrained rights", "constrained", p.Credentials.Authority, nil},
		{"a user", "jane", p.Credentials.Authority, nil},
		{"another authority's user", "admin", p.Credentials.Kubelets, []string{"system:masters"}},
	} {
		made, err := s.authority.Client(s.name, s.common, s.groups...)
		if err != nil {
			t.Fatalf("Client(%s) = %v, want a certificate", s.common, err)
		}
		out = append(out, sender{s.name, made})
	}
	return out
}

func newSide(name, url string, senders []sender, transport func() *http.Transport) *side {
	s := &side{name: name, url: url, clients: map[string]*http.Client{}}
	for _, from := range senders {
		way := transport()
		way.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
		if from.pair != nil {
			certificate := from.pair.TLS()
			way.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
		}
		way.MaxIdleConnsPerHost = 8
		s.clients[from.name] = &http.Client{Transport: way, Timeout: 20 * time.Second}
	}
	return s
}

const reviews = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

// ask posts a body and returns the status code, with the user or the error of the response.
func (s *side) ask(t *testing.T, from, path, body string, lines []line) pair.Aspects {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatalf("POST %s: %v, want a request", path, err)
	}
	q.Header.Set("Content-Type", "application/json")
	for _, l := range lines {
		q.Header[l.name] = append(q.Header[l.name], l.value) // as it is spelled
	}
	got, err := s.clients[from].Do(q)
	if err != nil {
		return pair.Aspects{"code": "0"} // the connection or the header is refused
	}
	defer got.Body.Close()
	data, err := io.ReadAll(got.Body)
	if err != nil {
		t.Errorf("POST %s at %s: %v, want a whole response", path, s.name, err)
	}
	out := pair.Aspects{"code": fmt.Sprint(got.StatusCode)}
	if warnings := got.Header.Values("Warning"); len(warnings) > 0 {
		out["header Warning"] = strings.Join(warnings, "\n")
	}
	var document map[string]any
	if json.Unmarshal(data, &document) != nil {
		out["body"] = string(bytes.TrimSpace(data))
		return out
	}
	delete(document, "metadata")
	out.Flatten("", document)
	return out
}

// A comparison counts requests and collects differences.
type comparison struct {
	theirs, ours *side

	mu    sync.Mutex
	sent  int
	codes map[string]int
}

// same sends a request to both servers and fails the test where the responses differ.
func (c *comparison) same(t *testing.T, about, from string, lines []line) {
	t.Helper()
	want, got := c.theirs.ask(t, from, reviews, "{}", lines), c.ours.ask(t, from, reviews, "{}", lines)
	c.mu.Lock()
	c.sent++
	c.codes[want["code"]]++
	c.mu.Unlock()
	r := pair.Request{Method: "POST", Path: reviews, About: from + ": " + about}
	for _, d := range pair.Differences(want, got) {
		if !allowances.Allow(r, d) {
			t.Errorf("%s is %.300s, want %.300s: %s sends %s", d.Aspect, d.Got, d.Want, from, about)
		}
	}
}

// TestIdentities compares the responses to tokens, headers and pairs of them.
func TestIdentities(t *testing.T) {
	i := serve(t)
	theirs, ours, senders := servers(t, i)
	c := &comparison{theirs: theirs, ours: ours, codes: map[string]int{}}
	for _, s := range []*side{theirs, ours} {
		for _, grant := range grants {
			if got := s.ask(t, "the administrator", "/apis/rbac.authorization.k8s.io/v1/"+grant.path, grant.body, nil); got["code"] != "201" {
				t.Fatalf("POST %s %.200s at %s = %v, want 201", grant.path, grant.body, s.name, got)
			}
		}
	}
	all := changes(i)
	for _, name := range []string{"a", "b", "c"} {
		for _, s := range []*side{theirs, ours} {
			until(t, func() string { // the issuer's keys are known
				got := s.ask(t, "nobody", reviews, "{}", []line{{"Authorization", "Bearer " + newToken(i, name).String()}})
				if got["code"] == "201" {
					return ""
				}
				return fmt.Sprintf("a token of /%s at %s = %v, want 201", name, s.name, got)
			})
		}
		t.Run("tokens of "+name, func(t *testing.T) {
			for _, change := range all {
				c.token(t, i, name, change)
			}
			random := rand.New(rand.NewPCG(*seed, 0))
			for range *pairs {
				c.token(t, i, name, all[random.IntN(len(all))], all[random.IntN(len(all))])
			}
		})
	}
	t.Run("headers", func(t *testing.T) {
		for _, from := range senders {
			for _, lines := range headers(*seed, *products) {
				c.same(t, shown(lines), from.name, lines)
			}
		}
	})
	t.Run("authorizations", func(t *testing.T) {
		for _, from := range senders {
			for _, lines := range authorizations(newToken(i, "b").String()) {
				c.same(t, shown(lines), from.name, lines)
			}
		}
	})
	t.Logf("%d requests to each server, codes %v", c.sent, c.codes)
	allowances.Used(t)
	if c.codes["201"] == 0 || c.codes["401"] == 0 || c.codes["403"] == 0 {
		t.Errorf("codes %v, want 201, 401 and 403 among them", c.codes)
	}
}

// token sends a token with the changes.
func (c *comparison) token(t *testing.T, i *issuers, name string, changes ...change) {
	t.Helper()
	made, about := newToken(i, name), []string{}
	for _, change := range changes {
		change.apply(made)
		about = append(about, change.name)
	}
	c.same(t, "a token of /"+name+", "+strings.Join(about, " and "), "nobody", []line{{"Authorization", "Bearer " + made.String()}})
}

// until repeats a check until it returns no complaint.
func until(t *testing.T, complaint func() string) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); ; <-tick.C {
		problem := complaint()
		if problem == "" {
			return
		}
		if time.Since(start) > time.Minute {
			t.Fatalf("after a minute: %s", problem)
		}
	}
}
