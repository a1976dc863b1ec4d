package oidc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/golang-jwt/jwt/v5"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/oidc"
)

// rotation is an issuer with an old and a new key, of which it has the old.
type rotation struct {
	*issuer
	before, after *ecdsa.PrivateKey
	a             *oidc.Authenticator
	stop          func()
}

func newRotation(t *testing.T) *rotation {
	r := &rotation{issuer: newIssuer(), before: ecKey(t, elliptic.P256()), after: ecKey(t, elliptic.P256())}
	r.keys = []map[string]any{jwk(t, "before", r.before.Public())}
	config := r.config()
	config.Algorithms = []string{"ES256"}
	var err error
	if r.a, err = oidc.New(oidc.Config{Issuers: []oidc.Issuer{config}}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rotation) begin(t *testing.T) {
	r.stop = run(t, r.a)
	synctest.Wait()
}

func (r *rotation) old(t *testing.T) string {
	return sign(t, jwt.SigningMethodES256, r.before, map[string]any{"kid": "before"}, map[string]any{"exp": time.Now().Add(1000 * time.Hour).Unix()})
}

func (r *rotation) new(t *testing.T) string {
	return sign(t, jwt.SigningMethodES256, r.after, map[string]any{"kid": "after"}, map[string]any{"exp": time.Now().Add(1000 * time.Hour).Unix()})
}

// rotate lets the issuer have the new key alone.
func (r *rotation) rotate(t *testing.T) {
	r.set(func() { r.keys = []map[string]any{jwk(t, "after", r.after.Public())} })
}

// A token with a new key has the keys fetched, and the old one is believed no more.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRotation(t)
		r.begin(t)
		old := r.old(t)
		want(t, r.a, "old key", old, "")
		time.Sleep(11 * time.Second)
		r.rotate(t)
		want(t, r.a, "old key, which is known", old, "")
		want(t, r.a, "new key", r.new(t), "")
		if _, _, err := r.a.Authenticate(bearing(old)); !errors.Is(err, authn.ErrUnchecked) {
			t.Errorf("the issuer was not asked again, yet %v is final", err)
		}
		time.Sleep(11 * time.Second)
		if _, _, err := r.a.Authenticate(bearing(old)); err == nil || errors.Is(err, authn.ErrUnchecked) {
			t.Errorf("the issuer was asked again, yet %v is not final", err)
		}
		if n := r.fetches(); n != 3 {
			t.Errorf("%d fetches", n)
		}
		r.stop()
	})
}

// However many tokens with unknown keys come, the issuer is asked every ten seconds.
func TestUnknownKeysAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRotation(t)
		r.begin(t)
		began := time.Now()
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				for time.Since(began) < 95*time.Second {
					want(t, r.a, "unknown key", r.new(t), "known key")
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		clients.Wait()
		if n := r.fetches(); n < 9 || n > 10 { // at the start and after 10, 20 ... 90 seconds
			t.Errorf("%d fetches in 95 seconds", n)
		}
		r.stop()
	})
}

// Keys that the issuer takes back are gone after max-age, without any token.
func TestKeysAge(t *testing.T) {
	for header, age := range map[string]time.Duration{
		"": 10 * time.Minute, "public, max-age=300": 5 * time.Minute, "MAX-AGE=\"120\"": 2 * time.Minute, "max-age=0": time.Minute,
		"max-age=99999999": time.Hour, "max-age=-1": 10 * time.Minute, "max-age=99999999999999999999": 10 * time.Minute, "no-store": 10 * time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRotation(t)
			r.header = header
			r.begin(t)
			r.rotate(t)
			time.Sleep(age - time.Second)
			want(t, r.a, header+": before", r.old(t), "")
			time.Sleep(2 * time.Second)
			want(t, r.a, header+": after", r.old(t), "known key")
			r.stop()
		})
	}
}

func TestIssuerTakesAllKeysBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRotation(t)
		r.begin(t)
		r.set(func() { r.keys = []map[string]any{} })
		time.Sleep(time.Hour)
		want(t, r.a, "old key", r.old(t), "known key")
		r.stop()
	})
}

// An issuer that is down at the start is tried again, and refuses its own tokens
// only.
func TestIssuerComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRotation(t)
		want(t, r.a, "before Run", r.old(t), "not been found yet")
		if _, _, err := r.a.Authenticate(bearing(r.old(t))); !errors.Is(err, authn.ErrUnchecked) {
			t.Errorf("%v is taken for a refusal", err)
		}
		r.broken = true
		r.begin(t)
		want(t, r.a, "down", r.old(t), "not been found yet")
		want(t, r.a, "another issuer's", sign(t, jwt.SigningMethodES256, r.before, nil, map[string]any{"iss": "https://elsewhere"}), "not mine")
		time.Sleep(10 * time.Minute)
		select {
		case <-r.a.Ready():
			t.Error("ready without keys")
		default:
		}
		r.set(func() { r.broken = false })
		time.Sleep(31 * time.Second) // the longest pause, and a second
		want(t, r.a, "up", r.old(t), "")
		<-r.a.Ready()
		r.stop()
	})
}

// While the issuer is down, the keys that it had are believed.
func TestIssuerGoesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRotation(t)
		r.begin(t)
		r.rotate(t)
		r.set(func() { r.broken = true })
		time.Sleep(24 * time.Hour)
		want(t, r.a, "old key", r.old(t), "")
		want(t, r.a, "new key", r.new(t), "known key")
		r.set(func() { r.broken = false })
		time.Sleep(31 * time.Second)
		want(t, r.a, "new key", r.new(t), "")
		want(t, r.a, "old key", r.old(t), "known key")
		r.stop()
		time.Sleep(time.Hour)
		want(t, r.a, "after Run", r.new(t), "")
		want(t, r.a, "after Run, where nobody fetches", r.old(t), "known key")
	})
}

// A token waits for keys no longer than its request.
func TestSlowIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		op, key := newIssuer(), ecKey(t, elliptic.P256())
		op.keys = []map[string]any{jwk(t, "1", key.Public())}
		slow := false
		config := op.config()
		config.Algorithms = []string{"ES256"}
		config.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if slow {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return op.RoundTrip(r)
		})
		a, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{config}})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, a)
		<-a.Ready()
		time.Sleep(time.Minute)
		slow = true
		unknown := bearing(sign(t, jwt.SigningMethodES256, key, map[string]any{"kid": "2"}, nil))
		for i, patience := range []time.Duration{time.Second, time.Hour} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			began := time.Now()
			_, known, err := a.Authenticate(unknown.WithContext(ctx))
			cancel()
			// The second waits for the end of the fetch that the first began.
			if took := time.Since(began); known || err == nil || took != []time.Duration{time.Second, 9 * time.Second}[i] {
				t.Errorf("%v, %v after %v", known, err, took)
			}
		}
		want(t, a, "known key", sign(t, jwt.SigningMethodES256, key, nil, nil), "")
		stop()
	})
}

// What an issuer may answer badly, over TLS: no keys, an error that says why, and
// no other host asked.
func TestBadAnswers(t *testing.T) {
	strangers := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("another host was asked")
	}))
	defer strangers.Close()
	discovery := func(w http.ResponseWriter, format string, args ...any) { fmt.Fprintf(w, format, args...) }
	for name, test := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request, self string)
		want   string
	}{
		"discovery redirected": {func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, strangers.URL, http.StatusFound)
		}, "another host"},
		"redirected to http": {func(w http.ResponseWriter, r *http.Request, self string) {
			http.Redirect(w, r, strings.Replace(self, "https", "http", 1), http.StatusFound)
		}, "another host"},
		"redirected in a circle": {func(w http.ResponseWriter, r *http.Request, self string) {
			http.Redirect(w, r, self, http.StatusFound)
		}, "too often"},
		"another issuer": {func(w http.ResponseWriter, _ *http.Request, self string) {
			discovery(w, `{"issuer":"%s/","jwks_uri":"%s/keys"}`, self, self)
		}, "is of issuer"},
		"keys over http": {func(w http.ResponseWriter, _ *http.Request, self string) {
			discovery(w, `{"issuer":"%s","jwks_uri":"http://x/keys"}`, self)
		}, "not an https URL"},
		"no keys":          {func(w http.ResponseWriter, _ *http.Request, self string) { discovery(w, `{"issuer":"%s"}`, self) }, "not an https URL"},
		"no JSON":          {func(w http.ResponseWriter, _ *http.Request, _ string) { io.WriteString(w, "<html>") }, "no JSON"},
		"endless":          {func(w http.ResponseWriter, _ *http.Request, _ string) { io.Copy(w, endless{}) }, "more than 1048576 bytes"},
		"error":            {func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusForbidden) }, "403"},
		"keys are no keys": {both(`{"error":"later"}`), "no key set"},
		"too many keys":    {both(`{"keys":[` + strings.Repeat("{},", 256) + `{}]}`), "more than 256 keys"},
	} {
		t.Run(name, func(t *testing.T) {
			var self string
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { test.answer(w, r, self) }))
			defer server.Close()
			self = server.URL
			pool := x509.NewCertPool()
			pool.AddCert(server.Certificate())
			pool.AddCert(strangers.Certificate())
			if got := failure(t, oidc.Issuer{URL: self, ClientIDs: []string{"a"}, Roots: pool}); !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// both answers discovery well and then with keys.
func both(keys string) func(http.ResponseWriter, *http.Request, string) {
	return func(w http.ResponseWriter, r *http.Request, self string) {
		if r.URL.Path == "/keys" {
			io.WriteString(w, keys)
			return
		}
		fmt.Fprintf(w, `{"issuer":"%s","jwks_uri":"%s/keys"}`, self, self)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// failure runs an authenticator until it has told the log of a failure.
func failure(t *testing.T, i oidc.Issuer) string {
	t.Helper()
	lines := make(chan string, 8)
	a, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{i}, Log: funcr.New(func(_, line string) {
		select {
		case lines <- line:
		default:
		}
	}, funcr.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	defer run(t, a)()
	select {
	case line := <-lines:
		return line
	case <-a.Ready():
		t.Fatal("keys were found")
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing was said")
	}
	return ""
}

// The issuer's certificate must be from whom it should be, and name it.
func TestCertificates(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	op := newIssuer()
	op.keys = []map[string]any{jwk(t, "1", key.Public())}
	server := httptest.NewUnstartedServer(op)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = quiet()
	server.StartTLS()
	defer server.Close()
	op.url = server.URL + "/realm"
	pool := x509.NewCertPool()
	config := oidc.Issuer{URL: op.url, ClientIDs: []string{"kubernetes"}, Algorithms: []string{"ES256"}, Roots: pool}
	if got := failure(t, config); !strings.Contains(got, "certificate") {
		t.Errorf("without the authority: %s", got)
	}
	pool.AddCert(server.Certificate())
	want(t, start(t, config), "with the authority", sign(t, jwt.SigningMethodES256, key, nil, map[string]any{"iss": op.url}), "")
	config.URL = strings.Replace(op.url, "127.0.0.1", "localhost", 1)
	if got := failure(t, config); !strings.Contains(got, "certificate") {
		t.Errorf("by another name: %s", got)
	}
}

// TestManyKeys: a token does not make the server try each key of a large set.
func TestManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newIssuer()
		keys := make([]*ecdsa.PrivateKey, 20)
		for n := range keys {
			keys[n] = ecKey(t, elliptic.P256())
			i.keys = append(i.keys, jwk(t, "same", keys[n].Public()))
		}
		config := i.config()
		config.Algorithms = []string{"ES256"}
		a, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{config}})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, a)
		synctest.Wait()
		for _, header := range []map[string]any{nil, {"kid": "same"}} {
			for n, key := range keys {
				_, ok, err := a.Authenticate(bearing(sign(t, jwt.SigningMethodES256, key, header, nil)))
				if good := n < 16; ok != good || (err == nil) != good {
					t.Errorf("a token with the header %v of key %d = %v, %v, want success: %v", header, n, ok, err, good)
				}
			}
		}
		stop()
	})
}

// TestWaitingIsBounded: while an issuer is slow, tokens that name unknown keys do not hold more and more
// requests.
func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRotation(t)
		var slow atomic.Bool
		config := r.config()
		config.Algorithms = []string{"ES256"}
		config.Transport = roundTrip(func(request *http.Request) (*http.Response, error) {
			if slow.Load() {
				<-request.Context().Done()
				return nil, request.Context().Err()
			}
			return r.RoundTrip(request)
		})
		a, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{config}})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t, a)
		synctest.Wait()
		slow.Store(true)
		time.Sleep(15 * time.Second) // tokens may trigger a fetch again
		token := r.new(t)
		var answered atomic.Int32
		var all sync.WaitGroup
		for range 400 {
			all.Go(func() {
				if _, ok, err := a.Authenticate(bearing(token)); ok || !errors.Is(err, authn.ErrUnchecked) {
					t.Errorf("Authenticate = %v, %v, want %v", ok, err, authn.ErrUnchecked)
				}
				answered.Add(1)
			})
		}
		synctest.Wait()
		if n := answered.Load(); n != 400-256 {
			t.Errorf("%d of 400 requests were answered at once, want 144", n)
		}
		all.Wait()
		// An old token is accepted all the time.
		if _, ok, err := a.Authenticate(bearing(r.old(t))); !ok || err != nil {
			t.Errorf("Authenticate of an old token = %v, %v", ok, err)
		}
		stop()
	})
}
