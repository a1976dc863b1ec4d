package oidc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/planekit/planekit/authn/oidc"
)

// start returns an authenticator that runs until the test ends and has all keys.
func start(t testing.TB, issuers ...oidc.Issuer) *oidc.Authenticator {
	t.Helper()
	a, err := oidc.New(oidc.Config{Issuers: issuers})
	if err != nil {
		t.Fatal(err)
	}
	run(t, a)
	select {
	case <-a.Ready():
	case <-time.After(2 * time.Minute):
		t.Fatal("not ready")
	}
	return a
}

func run(t testing.TB, a *oidc.Authenticator) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// want checks the answer to a token: "" is known, "not mine", or a part of an error.
func want(t testing.TB, a *oidc.Authenticator, name, token, want string) {
	t.Helper()
	u, known, err := a.Authenticate(bearing(token))
	got := ""
	switch {
	case err != nil:
		got = err.Error()
	case !known:
		got = "not mine"
	}
	if want == "" && got != "" || !strings.Contains(got, want) || known != (u != nil) {
		t.Errorf("%s: %v, %q, want %q", name, u, got, want)
	}
	for part := range strings.SplitSeq(token, ".") {
		if len(part) > 8 && strings.Contains(got, part) {
			t.Errorf("%s: the error quotes the token: %s", name, got)
		}
	}
}

// resign signs a token with a header as it is.
func resign(t *testing.T, key *ecdsa.PrivateKey, header, payload string) string {
	t.Helper()
	text := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + payload
	signature, err := jwt.SigningMethodES256.Sign(text, key)
	if err != nil {
		t.Fatalf("Sign(%s) = %v, want a signature", text, err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestForgeries(t *testing.T) {
	op, key, other := newIssuer(), ecKey(t, elliptic.P256()), ecKey(t, elliptic.P384())
	op.keys = []map[string]any{jwk(t, "1", key.Public()), jwk(t, "2", other.Public()), jwk(t, "3", rsaKey().Public())}
	config := op.config()
	config.Algorithms = []string{"ES256", "ES384", "RS256", "PS256"}
	a := start(t, config)
	es, own := jwt.SigningMethodES256, map[string]any{"kid": "1"}
	secret, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	good := sign(t, es, key, own, nil)
	parts := strings.Split(good, ".")
	admin := strings.Split(sign(t, es, key, own, map[string]any{"sub": "admin"}), ".")
	for _, test := range []struct{ name, token, want string }{
		{"good", good, ""},
		{"no kid", sign(t, es, key, nil, nil), ""},
		{"another key", sign(t, jwt.SigningMethodES384, other, map[string]any{"kid": "2"}, nil), ""},
		{"RSA", sign(t, jwt.SigningMethodRS256, rsaKey(), map[string]any{"kid": "3"}, nil), ""},
		{"RSA-PSS", sign(t, jwt.SigningMethodPS256, rsaKey(), map[string]any{"kid": "3"}, nil), ""},
		{"alg none", sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, own, nil), "algorithm"},
		{"secret made of the public key", sign(t, jwt.SigningMethodHS256, secret, own, nil), "algorithm"},
		{"algorithm not allowed", sign(t, jwt.SigningMethodRS512, rsaKey(), map[string]any{"kid": "3"}, nil), "algorithm"},
		{"algorithm in lower case", sign(t, es, key, map[string]any{"kid": "1", "alg": "es256"}, nil), "algorithm"},
		{"no algorithm", sign(t, es, key, map[string]any{"kid": "1", "alg": nil}, nil), "algorithm"},
		{"algorithm of another key", sign(t, jwt.SigningMethodES384, other, own, nil), "known key"},
		{"no signature", parts[0] + "." + parts[1] + ".", "signature"},
		{"another's signature", parts[0] + "." + parts[1] + "." + admin[2], "signature"},
		{"another's claims", parts[0] + "." + admin[1] + "." + parts[2], "signature"},
		{"a stranger's key", sign(t, es, ecKey(t, elliptic.P256()), own, nil), "signature"},
		{"a stranger's key without a name", sign(t, es, ecKey(t, elliptic.P256()), nil, nil), "known key"},
		{"unknown kid", sign(t, es, key, map[string]any{"kid": "9"}, nil), "known key"},
		{"kid is no text", sign(t, es, key, map[string]any{"kid": 1}, nil), "malformed"},
		{"critical header", sign(t, es, key, map[string]any{"kid": "1", "crit": []string{"x"}}, nil), "not understood"},
		{"a payload that is no base64", sign(t, es, key, map[string]any{"kid": "1", "b64": false}, nil), "not understood"},
		{"two algorithms", resign(t, key, `{"alg":"none","alg":"ES256","kid":"1"}`, parts[1]), "malformed"},
		{"key in the header", sign(t, es, ecKey(t, elliptic.P256()), map[string]any{"jwk": op.keys[0]}, nil), "known key"},
		{"signature spelled otherwise", good[:len(good)-1] + string(good[len(good)-1]+1), "malformed"},
		{"a line's end in the signature", good[:len(good)-4] + "\n" + good[len(good)-4:], "malformed"},
		{"padding", parts[0] + "." + parts[1] + "." + parts[2] + "==", "malformed"},
		{"header is no object", base64.RawURLEncoding.EncodeToString([]byte(`[]`)) + "." + parts[1] + "." + parts[2], "malformed"},
		{"another issuer", sign(t, es, key, own, map[string]any{"iss": "https://elsewhere"}), "not mine"},
		{"issuer with a slash", sign(t, es, key, own, map[string]any{"iss": issuerURL + "/"}), "not mine"},
		{"no issuer", sign(t, es, key, own, map[string]any{"iss": nil}), "not mine"},
		{"issuer in another case", sign(t, es, key, own, map[string]any{"iss": nil, "ISS": issuerURL}), "another issuer's"},
		{"opaque", "s3cret", "not mine"},
		{"dots", "a.b.c", "not mine"},
		{"JSON", `{"payload":"a.b.c"}`, "not mine"},
		{"long", good + strings.Repeat("A", 64<<10), "not mine"},
	} {
		want(t, a, test.name, test.token, test.want)
	}
}

func TestTimesAndAudiences(t *testing.T) {
	op, key := newIssuer(), ecKey(t, elliptic.P256())
	op.keys = []map[string]any{jwk(t, "1", key.Public())}
	config := op.config()
	config.Algorithms, config.ClientIDs = []string{"ES256"}, []string{"kubernetes", "kubectl"}
	config.RequiredClaims, config.GroupsClaim = map[string]string{"hd": "example.com"}, "groups"
	lax := start(t, config)
	config.Parties = []string{"login"}
	strict := start(t, config)
	at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for _, test := range []struct {
		name   string
		change map[string]any
		want   string
	}{
		{"good", nil, ""},
		{"expired", map[string]any{"exp": at(-2 * time.Second)}, "over"},
		{"never ends", map[string]any{"exp": nil}, "claims"},
		{"ends in a text", map[string]any{"exp": "never"}, "claims"},
		{"ends with a fraction", map[string]any{"exp": float64(at(time.Hour)) + .5}, ""},
		{"ends in a number as a text", map[string]any{"exp": fmt.Sprint(at(time.Hour))}, ""},
		{"ends as late as can be", map[string]any{"exp": 9e18}, ""},
		{"ends past all times", map[string]any{"exp": 1e300}, "claims"},
		{"ended before all times", map[string]any{"exp": -9e18}, "over"},
		{"issued at no time", map[string]any{"iat": "now"}, "claims"},
		{"the subject is no text", map[string]any{"sub": 7}, "claims"},
		{"a claim without its source", map[string]any{"_claim_names": map[string]any{"groups": "there"}}, "claims"},
		{"sources are no objects", map[string]any{"_claim_sources": 7}, "claims"},
		{"the groups are elsewhere", map[string]any{"_claim_names": map[string]any{"groups": "there"},
			"_claim_sources": map[string]any{"there": map[string]any{"endpoint": "https://example.com"}}}, "elsewhere"},
		{"the groups are here and elsewhere", map[string]any{"groups": "devs", "_claim_names": map[string]any{"groups": "there"},
			"_claim_sources": map[string]any{"there": map[string]any{"endpoint": "https://example.com"}}}, ""},
		{"future nbf", map[string]any{"nbf": at(6 * time.Minute)}, "not hold yet"},
		{"nbf within the leeway", map[string]any{"nbf": at(4 * time.Minute)}, ""},
		{"nbf past all times", map[string]any{"nbf": 1e300}, "claims"},
		{"nbf is a text", map[string]any{"nbf": "now"}, "claims"},
		{"wrong audience", map[string]any{"aud": "vault"}, "audience"},
		{"wrong audiences", map[string]any{"aud": []string{"vault", "registry"}}, "audience"},
		{"no audience", map[string]any{"aud": nil}, "audience"},
		{"audience is no text", map[string]any{"aud": 7}, "audience"},
		{"one audience of several", map[string]any{"aud": []string{"vault", "kubectl"}}, ""},
		{"required claim missing", map[string]any{"hd": nil}, `required claim "hd"`},
		{"required claim differs", map[string]any{"hd": "example.org"}, `required claim "hd"`},
		{"required claim is a list", map[string]any{"hd": []string{"example.com"}}, `required claim "hd"`},
	} {
		change := map[string]any{"hd": "example.com"}
		for name, value := range test.change {
			change[name] = value
		}
		want(t, lax, test.name, sign(t, jwt.SigningMethodES256, key, nil, change), test.want)
		change["azp"] = "login"
		want(t, strict, test.name+", from a client of ours", sign(t, jwt.SigningMethodES256, key, nil, change), test.want)
	}
	for _, azp := range []any{"other", 7} {
		token := sign(t, jwt.SigningMethodES256, key, nil, map[string]any{"hd": "example.com", "azp": azp})
		want(t, lax, "another client's, which nobody asks", token, "")
		want(t, strict, "another client's", token, "another client")
	}
}

func TestOtherCredentials(t *testing.T) {
	op := newIssuer()
	a := start(t, op.config())
	for name, test := range map[string]struct {
		headers []string
		bad     bool
	}{"none": {}, "basic": {headers: []string{"Basic eDp5"}}, "two": {headers: []string{"Bearer a", "Bearer b"}, bad: true}} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = test.headers
		if u, known, err := a.Authenticate(r); u != nil || known || (err != nil) != test.bad {
			t.Errorf("%s: Authenticate = %v, %v, %v, want no user, false, an error: %v", name, u, known, err, test.bad)
		}
	}
}

// Two issuers sign with the same key ID; each is believed its own users only.
func TestIssuersApart(t *testing.T) {
	one, two := newIssuer(), newIssuer()
	two.url = "https://other.example.com/realm"
	k1, k2 := ecKey(t, elliptic.P256()), ecKey(t, elliptic.P256())
	one.keys, two.keys = []map[string]any{jwk(t, "1", k1.Public())}, []map[string]any{jwk(t, "1", k2.Public())}
	c1, c2 := one.config(), two.config()
	c1.Algorithms, c2.Algorithms = []string{"ES256"}, []string{"ES256"}
	c2.ClientIDs = []string{"planekit"}
	a := start(t, c1, c2)
	kid := map[string]any{"kid": "1"}
	theirs := map[string]any{"iss": two.url, "aud": "planekit"}
	for _, test := range []struct{ name, token, want, user string }{
		{"one's", sign(t, jwt.SigningMethodES256, k1, kid, nil), "", issuerURL + "#jane"},
		{"two's", sign(t, jwt.SigningMethodES256, k2, kid, theirs), "", two.url + "#jane"},
		{"two's in one's name", sign(t, jwt.SigningMethodES256, k2, kid, nil), "signature", ""},
		{"one's in two's name", sign(t, jwt.SigningMethodES256, k1, kid, theirs), "signature", ""},
		{"two's for one's audience", sign(t, jwt.SigningMethodES256, k2, kid, map[string]any{"iss": two.url}), "audience", ""},
	} {
		want(t, a, test.name, test.token, test.want)
		if u, _, _ := a.Authenticate(bearing(test.token)); u != nil && u.Name != test.user {
			t.Errorf("%s: Authenticate knows %q, want %q", test.name, u.Name, test.user)
		}
	}
}

// The algorithms that keys are for count, and keys that cannot be used do no harm.
func TestKeySets(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	with := func(change map[string]any) map[string]any {
		j := jwk(t, "1", key.Public())
		for name, value := range change {
			j[name] = value
		}
		return j
	}
	for _, test := range []struct {
		name string
		keys []map[string]any
		want string
	}{
		{"plain", []map[string]any{with(nil)}, ""},
		{"beside others", []map[string]any{{}, {"kty": "oct", "k": "AAAA"}, {"kty": "OKP", "crv": "Ed25519", "x": "AAAA"},
			{"kty": 7}, {"kty": "RSA", "kid": "1", "n": "AQAB", "e": "AQAB"}, {"kty": "EC", "kid": "1", "crv": "P-256", "x": "AA", "y": "AA"}, with(nil)}, ""},
		{"its algorithm", []map[string]any{with(map[string]any{"alg": "ES256"})}, ""},
		{"to verify with", []map[string]any{with(map[string]any{"key_ops": []string{"verify"}})}, ""},
		{"another algorithm", []map[string]any{with(map[string]any{"alg": "ES384"})}, "known key"},
		{"to encrypt with", []map[string]any{with(map[string]any{"use": "enc"})}, "known key"},
		{"to wrap with", []map[string]any{with(map[string]any{"key_ops": []string{"wrapKey"}})}, "known key"},
		{"off the curve", []map[string]any{with(map[string]any{"x": strings.Repeat("A", 43)})}, "known key"},
		{"none", []map[string]any{}, "known key"},
		{"two of a name", []map[string]any{jwk(t, "1", ecKey(t, elliptic.P256()).Public()), with(nil)}, ""},
	} {
		op := newIssuer()
		op.keys = test.keys
		config := op.config()
		config.Algorithms = []string{"ES256"}
		want(t, start(t, config), test.name, sign(t, jwt.SigningMethodES256, key, map[string]any{"kid": "1"}, nil), test.want)
	}
}

func TestConfigsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*oidc.Issuer){
		"no URL":       func(i *oidc.Issuer) { i.URL = "" },
		"http":         func(i *oidc.Issuer) { i.URL = "http://op.example.com" },
		"no host":      func(i *oidc.Issuer) { i.URL = "https:///realm" },
		"not a URL":    func(i *oidc.Issuer) { i.URL = "https://joe:s3cret@op.example.com:x" },
		"user":         func(i *oidc.Issuer) { i.URL = "https://joe:s3cret@op.example.com" },
		"query":        func(i *oidc.Issuer) { i.URL = "https://op.example.com?a" },
		"fragment":     func(i *oidc.Issuer) { i.URL = "https://op.example.com#a" },
		"discovery":    func(i *oidc.Issuer) { i.DiscoveryURL = "http://op.example.com" },
		"no clients":   func(i *oidc.Issuer) { i.ClientIDs = nil },
		"empty client": func(i *oidc.Issuer) { i.ClientIDs = []string{""} },
		"none":         func(i *oidc.Issuer) { i.Algorithms = []string{"none"} },
		"HS256":        func(i *oidc.Issuer) { i.Algorithms = []string{"RS256", "HS256"} },
		"extra key":    func(i *oidc.Issuer) { i.ExtraClaims = map[string]string{"Team": "team"} },
		"extra claim":  func(i *oidc.Issuer) { i.ExtraClaims = map[string]string{"team": ""} },
		"required":     func(i *oidc.Issuer) { i.RequiredClaims = map[string]string{"": "a"} },
		"two ways":     func(i *oidc.Issuer) { i.Roots = x509.NewCertPool() },
	} {
		config := newIssuer().config()
		change(&config)
		if _, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{config}}); err == nil {
			t.Errorf("%s: taken", name)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: New has the error %v, want one that does not quote the password", name, err)
		}
	}
	same := newIssuer().config()
	for name, issuers := range map[string][]oidc.Issuer{"none": nil, "twice": {same, same}} {
		if _, err := oidc.New(oidc.Config{Issuers: issuers}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestRunsOnce(t *testing.T) {
	a := start(t, newIssuer().config())
	if err := a.Run(t.Context()); err == nil {
		t.Error("Run twice")
	}
}

// Google's tokens may name Google without the scheme.
func TestGoogle(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	google := newIssuer()
	google.url = "https://accounts.google.com"
	google.keys = []map[string]any{jwk(t, "1", key.Public())}
	a := start(t, oidc.Issuer{URL: google.url, ClientIDs: []string{"kubernetes"}, Algorithms: []string{"ES256"},
		Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			r.URL.Path = "/realm" + r.URL.Path // where the issuer has its documents
			return google.RoundTrip(r)
		})})
	for _, name := range []string{"accounts.google.com", google.url} {
		token := sign(t, jwt.SigningMethodES256, key, nil, map[string]any{"iss": name})
		u, known, err := a.Authenticate(bearing(token))
		if err != nil || !known || u.Name != google.url+"#jane" {
			t.Errorf("Authenticate with the iss %s = %v, %v, %v, want %s#jane", name, u, known, err, google.url)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestUsers(t *testing.T) {
	type extra = map[string][]string
	op, key := newIssuer(), ecKey(t, elliptic.P256())
	op.keys = []map[string]any{jwk(t, "1", key.Public())}
	for _, test := range []struct {
		name   string
		change func(*oidc.Issuer)
		claims string
		want   string // name, or an error's part
		uid    string
		groups []string
		extra  extra
	}{
		{name: "as it comes", want: issuerURL + "#jane"},
		{name: "no prefix", change: func(i *oidc.Issuer) { i.UsernamePrefix = "-" }, want: "jane"},
		{name: "prefix", change: func(i *oidc.Issuer) { i.UsernamePrefix = "oidc:" }, want: "oidc:jane"},
		{name: "claim", change: func(i *oidc.Issuer) { i.UsernameClaim = "nick" }, claims: `{"nick":"jj"}`, want: issuerURL + "#jj"},
		{name: "claim missing", change: func(i *oidc.Issuer) { i.UsernameClaim = "nick" }, want: `claim "nick"`},
		{name: "claim empty", claims: `{"sub":""}`, want: `claim "sub"`},
		{name: "claim is null", claims: `{"sub":null}`, want: `claim "sub"`},
		{name: "claim is a number", change: func(i *oidc.Issuer) { i.UsernameClaim = "id" }, claims: `{"id":7}`, want: `claim "id"`},
		{name: "e-mail", change: func(i *oidc.Issuer) { i.UsernameClaim = "email" }, claims: `{"email":"j@x","email_verified":true}`, want: "j@x"},
		{name: "e-mail, not said", change: func(i *oidc.Issuer) { i.UsernameClaim = "email" }, claims: `{"email":"j@x"}`, want: "j@x"},
		{name: "e-mail, not verified", change: func(i *oidc.Issuer) { i.UsernameClaim = "email" }, claims: `{"email":"j@x","email_verified":false}`, want: "not verified"},
		{name: "e-mail, a text", change: func(i *oidc.Issuer) { i.UsernameClaim = "email" }, claims: `{"email":"j@x","email_verified":"true"}`, want: "not verified"},
		{name: "e-mail, null", change: func(i *oidc.Issuer) { i.UsernameClaim = "email" }, claims: `{"email":"j@x","email_verified":null}`, want: "not verified"},
		{name: "groups nobody asked for", claims: `{"groups":["a"],"":["b"]}`, want: issuerURL + "#jane"},
		{name: "groups", change: func(i *oidc.Issuer) { i.GroupsClaim = "groups" }, claims: `{"groups":["a","b"]}`, want: issuerURL + "#jane", groups: []string{"a", "b"}},
		{name: "groups with a prefix", change: func(i *oidc.Issuer) { i.GroupsClaim, i.GroupsPrefix = "groups", "oidc:" }, claims: `{"groups":["system:masters"]}`, want: issuerURL + "#jane", groups: []string{"oidc:system:masters"}},
		{name: "one group", change: func(i *oidc.Issuer) { i.GroupsClaim = "role" }, claims: `{"role":"a"}`, want: issuerURL + "#jane", groups: []string{"a"}},
		{name: "no groups", change: func(i *oidc.Issuer) { i.GroupsClaim = "groups" }, want: issuerURL + "#jane"},
		{name: "groups are null", change: func(i *oidc.Issuer) { i.GroupsClaim = "groups" }, claims: `{"groups":null}`, want: issuerURL + "#jane"},
		{name: "a group is null", change: func(i *oidc.Issuer) { i.GroupsClaim = "groups" }, claims: `{"groups":["a",null]}`, want: `claim "groups"`},
		{name: "groups are numbers", change: func(i *oidc.Issuer) { i.GroupsClaim = "groups" }, claims: `{"groups":[1]}`, want: `claim "groups"`},
		{name: "UID", change: func(i *oidc.Issuer) { i.UIDClaim = "oid" }, claims: `{"oid":"u1"}`, want: issuerURL + "#jane", uid: "u1"},
		{name: "no UID", change: func(i *oidc.Issuer) { i.UIDClaim = "oid" }, want: `claim "oid"`},
		{name: "extra", change: func(i *oidc.Issuer) {
			i.ExtraClaims = map[string]string{"example.com/team": "team", "example.com/none": "none"}
		},
			claims: `{"team":["x","y"],"jti":"t1"}`, want: issuerURL + "#jane",
			extra: extra{"example.com/team": {"x", "y"}, "authentication.kubernetes.io/credential-id": {"JTI=t1"}}},
		{name: "extra is a number", change: func(i *oidc.Issuer) { i.ExtraClaims = map[string]string{"team": "team"} }, claims: `{"team":7}`, want: `claim "team"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := op.config()
			config.Algorithms = []string{"ES256"}
			if test.change != nil {
				test.change(&config)
			}
			claims := jwt.MapClaims{}
			if test.claims != "" {
				if err := json.Unmarshal([]byte(test.claims), &claims); err != nil {
					t.Fatal(err)
				}
			}
			all := claimed(nil)
			for name, value := range claims {
				all[name] = value // null stays
			}
			token, err := jwt.NewWithClaims(jwt.SigningMethodES256, all).SignedString(key)
			if err != nil {
				t.Fatal(err)
			}
			u, known, err := start(t, config).Authenticate(bearing(token))
			if err != nil {
				if known || u != nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("%v, %v, want %q", u, err, test.want)
				}
				return
			}
			if !known || u.Name != test.want || u.UID != test.uid || !reflect.DeepEqual(u.Groups, test.groups) || !reflect.DeepEqual(u.Extra, test.extra) {
				t.Errorf("Authenticate = %+v, %v, want %q, UID %q, groups %q, extra %q", u, known, test.want, test.uid, test.groups, test.extra)
			}
		})
	}
}
