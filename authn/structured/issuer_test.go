package structured_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An issuer signs tokens and publishes its key.
type issuer struct {
	url string
	ca  string // of the server, as PEM
	key *ecdsa.PrivateKey
	// asked counts requests.
	asked atomic.Int64
}

func newIssuer(t testing.TB, url string) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer{url: url, key: key}
}

// serve starts the issuer over TLS.
func serve(t testing.TB) *issuer {
	t.Helper()
	i := newIssuer(t, "")
	server := httptest.NewUnstartedServer(i)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	i.url = server.URL
	i.ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return i
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.asked.Add(1)
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		json.NewEncoder(w).Encode(map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys"})
	case "/keys":
		point, _ := i.key.PublicKey.Bytes()
		encode := base64.RawURLEncoding.EncodeToString
		json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]any{"kty": "EC", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])}}})
	default:
		http.NotFound(w, r)
	}
}

// sign makes a token for "us" that holds for an hour, with further claims.
func (i *issuer) sign(t testing.TB, claims map[string]any) string {
	t.Helper()
	all := jwt.MapClaims{"iss": i.url, "aud": "us", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	token, err := jwt.NewWithClaims(jwt.SigningMethodES256, all).SignedString(i.key)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func bearing(token string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// network reaches issuers in memory, by host.
type network map[string]*issuer

func (n network) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if i := n[r.URL.Host]; i != nil {
		i.ServeHTTP(w, r)
	} else {
		http.Error(w, "nobody", http.StatusBadGateway)
	}
	return w.Result(), nil
}

// indent moves lines of a block into another.
func indent(text, by string) string {
	var out bytes.Buffer
	for line := range strings.Lines(text) {
		out.WriteString(by + line)
	}
	return out.String()
}
