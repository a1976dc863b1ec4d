package oidc_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/planekit/planekit/authn/oidc"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const issuerURL = "https://op.example.com/realm"

// An issuer publishes keys. It is reached through memory as a transport, and over
// the network as a handler.
type issuer struct {
	url string

	mu sync.Mutex
	// The following are guarded by mu.
	keys    []map[string]any
	header  string // Cache-Control of the key set
	broken  bool
	fetched int // key sets
}

func newIssuer() *issuer { return &issuer{url: issuerURL, keys: []map[string]any{}} }

func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

func (i *issuer) fetches() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetched
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.broken:
		http.Error(w, "down", http.StatusBadGateway)
	case r.URL.Path == "/realm/.well-known/openid-configuration":
		json.NewEncoder(w).Encode(map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys?of=all"})
	case r.URL.Path == "/realm/keys":
		i.fetched++
		if i.header != "" {
			w.Header().Set("Cache-Control", i.header)
		}
		json.NewEncoder(w).Encode(map[string]any{"keys": i.keys})
	default:
		http.NotFound(w, r)
	}
}

func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	return w.Result(), nil
}

// config believes i with nothing but defaults.
func (i *issuer) config() oidc.Issuer {
	return oidc.Issuer{URL: i.url, ClientIDs: []string{"kubernetes"}, Transport: i}
}

func ecKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// rsaKey is made once: it takes long.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// jwk shows a key as RFC 7517 does.
func jwk(t testing.TB, id string, public crypto.PublicKey) map[string]any {
	t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	switch k := public.(type) {
	case *rsa.PublicKey:
		return map[string]any{"kty": "RSA", "kid": id, "use": "sig", "n": encode(k.N.Bytes()), "e": encode(big.NewInt(int64(k.E)).Bytes())}
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		half := (len(point) - 1) / 2
		return map[string]any{"kty": "EC", "kid": id, "crv": k.Curve.Params().Name, "x": encode(point[1 : 1+half]), "y": encode(point[1+half:])}
	}
	t.Fatalf("jwk of a %T, want an RSA or ECDSA key", public)
	return nil
}

// claimed are the claims of a good token, changed; nil takes one away.
func claimed(change map[string]any) jwt.MapClaims {
	c := jwt.MapClaims{"iss": issuerURL, "sub": "jane", "aud": "kubernetes", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// sign signs anything, well or badly.
func sign(t testing.TB, method jwt.SigningMethod, key any, header map[string]any, change map[string]any) string {
	t.Helper()
	token := jwt.NewWithClaims(method, claimed(change))
	maps.Copy(token.Header, header)
	signed, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func bearing(token string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// quiet is for servers whose clients break off.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
