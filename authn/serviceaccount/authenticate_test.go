package serviceaccount_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/planekit/planekit/authn/serviceaccount"
)

// world is an authenticator with everything it asks.
type world struct {
	key                            *ecdsa.PrivateKey
	signer                         *serviceaccount.Signer
	keys                           *serviceaccount.KeySet
	accounts, pods, secrets, nodes living
	authenticator                  *serviceaccount.Authenticator
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{key: ecKey(elliptic.P256()),
		accounts: living{"shop/web": {UID: "a1"}}, pods: living{"shop/web-0": {UID: "p1"}},
		secrets: living{"shop/key": {UID: "s1"}}, nodes: living{"/node-1": {UID: "n1"}}}
	var err error
	if w.signer, err = serviceaccount.NewSigner(issuer, w.key); err != nil {
		t.Fatal(err)
	}
	if w.keys, err = serviceaccount.NewKeySet(w.key.Public()); err != nil {
		t.Fatal(err)
	}
	w.authenticator, err = serviceaccount.New(serviceaccount.Config{
		Issuers: []string{issuer, "https://old"}, Audiences: []string{"api", issuer}, Keys: w.keys,
		Accounts: w.accounts.lookup, Pods: w.pods.lookup, Secrets: w.secrets.lookup, Nodes: w.nodes.lookup,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func grant() serviceaccount.Grant {
	return serviceaccount.Grant{Namespace: "shop", Account: serviceaccount.Ref{Name: "web", UID: "a1"},
		Audiences: []string{"api"}, Life: time.Hour}
}

func (w *world) sign(t testing.TB, g serviceaccount.Grant) string {
	t.Helper()
	token, err := w.signer.Sign(g)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// want checks the answer to a token, twice: the second may come from the cache.
// An error is known by a part of its text; "not mine" and "" are the other two.
func (w *world) want(t *testing.T, name, token, want string) {
	t.Helper()
	for range 2 {
		u, known, err := w.authenticator.Authenticate(bearing(token))
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
			if len(part) > 3 && strings.Contains(got, part) {
				t.Errorf("%s: the error quotes the token: %s", name, got)
			}
		}
	}
}

func ref(name, uid string) *serviceaccount.Ref { return &serviceaccount.Ref{Name: name, UID: uid} }

func TestWhoTheyAre(t *testing.T) {
	w := newWorld(t)
	g := grant()
	g.Pod, g.Node = ref("web-0", "p1"), ref("node-1", "n1")
	u, known, err := w.authenticator.Authenticate(bearing(w.sign(t, g)))
	if !known || err != nil {
		t.Fatal(known, err)
	}
	id := u.Extra[serviceaccount.CredentialIDKey]
	if len(id) != 1 || !strings.HasPrefix(id[0], "JTI=") || len(id[0]) < 20 {
		t.Errorf("credential %v", id)
	}
	maps.DeleteFunc(u.Extra, func(key string, _ []string) bool { return key == serviceaccount.CredentialIDKey })
	want := map[string][]string{
		"authentication.kubernetes.io/pod-name": {"web-0"}, "authentication.kubernetes.io/pod-uid": {"p1"},
		"authentication.kubernetes.io/node-name": {"node-1"}, "authentication.kubernetes.io/node-uid": {"n1"},
	}
	if u.Name != "system:serviceaccount:shop:web" || u.UID != "a1" || !reflect.DeepEqual(u.Extra, want) ||
		!reflect.DeepEqual(u.Groups, []string{"system:serviceaccounts", "system:serviceaccounts:shop"}) {
		t.Errorf("Authenticate = %+v, want system:serviceaccount:shop:web, UID a1, the groups of service accounts and extra %v", u, want)
	}
}

// payload is the middle of a token, decoded.
func payload(t *testing.T, token string) map[string]any {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	var claims map[string]any
	if err := json.Unmarshal(data, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

// The claims are those of kube-apiserver, by which other programs know them.
func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g := grant()
		g.Pod, g.Node, g.WarnAfter = ref("web-0", "p1"), ref("node-1", "n1"), time.Minute
		got := payload(t, w.sign(t, g))
		delete(got, "jti")
		now := float64(time.Now().Unix())
		object := func(name, uid string) map[string]any { return map[string]any{"name": name, "uid": uid} }
		want := map[string]any{"iss": issuer, "sub": "system:serviceaccount:shop:web", "aud": []any{"api"},
			"iat": now, "nbf": now, "exp": now + 3600,
			"kubernetes.io": map[string]any{"namespace": "shop", "serviceaccount": object("web", "a1"),
				"pod": object("web-0", "p1"), "node": object("node-1", "n1"), "warnafter": now + 60}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("claims\n%v, want\n%v", got, want)
		}
	})
}

// forge signs claims that the signer would not: those of a good token, changed.
func (w *world) forge(t *testing.T, method jwt.SigningMethod, key any, header map[string]any, change map[string]any) string {
	t.Helper()
	claims := jwt.MapClaims(payload(t, w.sign(t, grant())))
	for name, value := range change {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	token := jwt.NewWithClaims(method, claims)
	maps.Copy(token.Header, header)
	signed, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func TestForgeries(t *testing.T) {
	w := newWorld(t)
	id, err := serviceaccount.KeyID(w.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	der := []byte(id) // any secret that is public
	own := map[string]any{"kid": id}
	es := jwt.SigningMethodES256
	object := func(change map[string]any) map[string]any {
		k := payload(t, w.sign(t, grant()))["kubernetes.io"].(map[string]any)
		maps.Copy(k, change)
		return map[string]any{"kubernetes.io": k}
	}
	good := w.sign(t, grant())
	parts := strings.Split(good, ".")
	other := strings.Split(w.sign(t, grant()), ".")
	for _, test := range []struct{ name, token, want string }{
		{"good", good, ""},
		{"made elsewhere with our key", w.forge(t, es, w.key, own, nil), ""},
		{"another issuer of ours", w.forge(t, es, w.key, own, map[string]any{"iss": "https://old"}), ""},
		{"no kid", w.forge(t, es, w.key, nil, nil), ""},
		{"alg none", w.forge(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, own, nil), "signature"},
		{"no signature", parts[0] + "." + parts[1] + ".", "signature"},
		{"another's signature", parts[0] + "." + parts[1] + "." + other[2], "signature"},
		{"another's claims", parts[0] + "." + other[1] + "." + parts[2], "signature"},
		{"secret made of the public key", w.forge(t, jwt.SigningMethodHS256, der, own, nil), "signature"},
		{"unknown kid", w.forge(t, es, w.key, map[string]any{"kid": "other"}, nil), "signature"},
		{"kid is no text", w.forge(t, es, w.key, map[string]any{"kid": 7}, nil), "signature"},
		{"another key", w.forge(t, es, ecKey(elliptic.P256()), own, nil), "signature"},
		{"critical header", w.forge(t, es, w.key, map[string]any{"kid": id, "crit": []string{"x"}}, nil), "signature"},
		{"another issuer", w.forge(t, es, w.key, own, map[string]any{"iss": "https://elsewhere"}), "not mine"},
		{"no issuer", w.forge(t, es, w.key, own, map[string]any{"iss": nil}), "not mine"},
		{"opaque", "s3cret", "not mine"},
		{"dots", "a.b.c", "not mine"},
		{"long", good + strings.Repeat("A", 16<<10), "not mine"},
		{"expired", w.forge(t, es, w.key, own, map[string]any{"exp": time.Now().Add(-61 * time.Second).Unix()}), "expired"},
		{"never ends", w.forge(t, es, w.key, own, map[string]any{"exp": nil}), "claims"},
		{"future nbf", w.forge(t, es, w.key, own, map[string]any{"nbf": time.Now().Add(2 * time.Minute).Unix()}), "not valid yet"},
		{"future iat", w.forge(t, es, w.key, own, map[string]any{"iat": time.Now().Add(2 * time.Minute).Unix()}), "not valid yet"},
		{"audience", w.forge(t, es, w.key, own, map[string]any{"aud": []string{"vault"}}), "another audience"},
		{"no audience", w.forge(t, es, w.key, own, map[string]any{"aud": nil}), "another audience"},
		{"subject", w.forge(t, es, w.key, own, map[string]any{"sub": "system:serviceaccount:shop:admin"}), "claims"},
		{"no account", w.forge(t, es, w.key, own, map[string]any{"kubernetes.io": nil}), "claims"},
		{"account without UID", w.forge(t, es, w.key, own, object(map[string]any{"serviceaccount": ref("web", "")})), "claims"},
	} {
		w.want(t, test.name, test.token, test.want)
	}
}

func TestBinding(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct {
		name   string
		change func(*serviceaccount.Grant)
		want   string
	}{
		{"account", func(*serviceaccount.Grant) {}, ""},
		{"unknown account", func(g *serviceaccount.Grant) { g.Account.Name = "db" }, "service account shop/db is gone"},
		{"account made anew", func(g *serviceaccount.Grant) { g.Account.UID = "a0" }, "another of the same name"},
		{"pod", func(g *serviceaccount.Grant) { g.Pod = ref("web-0", "p1") }, ""},
		{"unknown pod", func(g *serviceaccount.Grant) { g.Pod = ref("web-1", "p1") }, "pod shop/web-1 is gone"},
		{"pod made anew", func(g *serviceaccount.Grant) { g.Pod = ref("web-0", "p0") }, "pod shop/web-0 is another"},
		{"pod of a node that is gone", func(g *serviceaccount.Grant) { g.Pod, g.Node = ref("web-0", "p1"), ref("node-9", "n9") }, ""},
		{"secret", func(g *serviceaccount.Grant) { g.Secret = ref("key", "s1") }, ""},
		{"unknown secret", func(g *serviceaccount.Grant) { g.Secret = ref("lock", "s1") }, "secret shop/lock is gone"},
		{"node", func(g *serviceaccount.Grant) { g.Node = ref("node-1", "n1") }, ""},
		{"node made anew", func(g *serviceaccount.Grant) { g.Node = ref("node-1", "n0") }, "node node-1 is another"},
	} {
		g := grant()
		test.change(&g)
		w.want(t, test.name, w.sign(t, g), test.want)
	}
}

// What a token is bound to is asked on every use, however well the token is known.
func TestDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g := grant()
		g.Pod = ref("web-0", "p1")
		token := w.sign(t, g)
		w.want(t, "alive", token, "")
		w.pods["shop/web-0"] = serviceaccount.Object{UID: "p1", Deleted: time.Now()}
		w.want(t, "being deleted", token, "")
		time.Sleep(time.Minute)
		w.want(t, "deleted a minute ago", token, "")
		time.Sleep(time.Second)
		w.want(t, "deleted longer ago", token, "pod shop/web-0 has been deleted")
		w.pods["shop/web-0"] = serviceaccount.Object{UID: "p1"}
		w.want(t, "there after all", token, "")
		delete(w.accounts, "shop/web")
		w.want(t, "account gone", token, "service account shop/web is gone")
	})
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		token := w.sign(t, grant())
		w.want(t, "new", token, "")
		time.Sleep(time.Hour + time.Minute)
		w.want(t, "within the leeway", token, "")
		time.Sleep(time.Second)
		w.want(t, "over", token, "has expired")
	})
}

func TestRotation(t *testing.T) {
	w := newWorld(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	old := w.sign(t, grant())
	w.want(t, "before", old, "")
	for _, next := range []crypto.Signer{ecKey(elliptic.P384()), ecKey(elliptic.P521()), rsaKey} {
		signer, err := serviceaccount.NewSigner(issuer, next)
		if err != nil {
			t.Fatal(err)
		}
		token, err := signer.Sign(grant())
		if err != nil {
			t.Fatal(err)
		}
		w.want(t, "a key not known yet", token, "signature")
		if err := w.keys.Replace(w.key.Public(), next.Public()); err != nil {
			t.Fatal(err)
		}
		w.want(t, "new key beside the old", token, "")
		w.want(t, "old key beside the new", old, "")
		if err := w.keys.Replace(w.key.Public()); err != nil {
			t.Fatal(err)
		}
		w.want(t, "a key that is dropped, though the token was known", token, "signature")
	}
}

func TestOtherCredentials(t *testing.T) {
	w := newWorld(t)
	for name, headers := range map[string][]string{"none": nil, "basic": {"Basic eDp5"}} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = headers
		if _, known, err := w.authenticator.Authenticate(r); known || err != nil {
			t.Errorf("%s: Authenticate = %v, %v, want false and no error", name, known, err)
		}
	}
	r := bearing(w.sign(t, grant()))
	r.Header.Add("Authorization", "Bearer x")
	if _, known, err := w.authenticator.Authenticate(r); known || err == nil {
		t.Error("two headers were taken")
	}
}

func TestLookupFails(t *testing.T) {
	w := newWorld(t)
	broken := errors.New("storage is down")
	a, err := serviceaccount.New(serviceaccount.Config{Issuers: []string{issuer}, Audiences: []string{"api"}, Keys: w.keys,
		Accounts: func(context.Context, string, string, string) (serviceaccount.Object, bool, error) {
			return serviceaccount.Object{}, false, broken
		}})
	if err != nil {
		t.Fatal(err)
	}
	if _, known, err := a.Authenticate(bearing(w.sign(t, grant()))); known || !errors.Is(err, broken) {
		t.Errorf("Authenticate = %v, %v, want false, %v", known, err, broken)
	}
	w.authenticator, err = serviceaccount.New(serviceaccount.Config{Issuers: []string{issuer}, Audiences: []string{"api"}, Keys: w.keys, Accounts: w.accounts.lookup})
	if err != nil {
		t.Fatal(err)
	}
	g := grant()
	g.Secret = ref("key", "s1")
	w.want(t, "nobody knows secrets", w.sign(t, g), "cannot be checked here")
}

func TestConfigsAreChecked(t *testing.T) {
	w := newWorld(t)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	_, err1 := serviceaccount.NewKeySet()
	_, err2 := serviceaccount.NewKeySet(weak.Public())
	_, err3 := serviceaccount.NewKeySet(ecKey(elliptic.P224()).Public())
	_, err4 := serviceaccount.NewSigner("", w.key)
	_, err5 := serviceaccount.NewSigner(issuer, weak)
	_, err6 := w.signer.Sign(serviceaccount.Grant{})
	for i, err := range []error{err1, err2, err3, err4, err5, err6} {
		if err == nil {
			t.Errorf("%d: taken", i+1)
		}
	}
	for name, change := range map[string]func(*serviceaccount.Config){
		"issuers":      func(c *serviceaccount.Config) { c.Issuers = nil },
		"empty issuer": func(c *serviceaccount.Config) { c.Issuers = []string{""} },
		"audiences":    func(c *serviceaccount.Config) { c.Audiences = nil },
		"keys":         func(c *serviceaccount.Config) { c.Keys = nil },
		"accounts":     func(c *serviceaccount.Config) { c.Accounts = nil },
	} {
		c := serviceaccount.Config{Issuers: []string{issuer}, Audiences: []string{"api"}, Keys: w.keys, Accounts: w.accounts.lookup}
		change(&c)
		if _, err := serviceaccount.New(c); err == nil {
			t.Errorf("%s: a config without was taken", name)
		}
	}
}

// The keys are published well enough to verify a token with nothing else.
func TestHandlers(t *testing.T) {
	w := newWorld(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.keys.Replace(rsaKey.Public(), w.key.Public()); err != nil {
		t.Fatal(err)
	}
	handlers := serviceaccount.Handlers(issuer, "https://10.0.0.1"+serviceaccount.JWKSPath, w.keys)
	get := func(path, media string, into any) {
		t.Helper()
		recorder := httptest.NewRecorder()
		handlers[path].ServeHTTP(recorder, httptest.NewRequest("GET", path, nil))
		if got := recorder.Header().Get("Content-Type"); got != media || recorder.Code != http.StatusOK {
			t.Errorf("GET %s = %d as %q, want 200 as %s", path, recorder.Code, got, media)
		}
		if err := json.Unmarshal(recorder.Body.Bytes(), into); err != nil {
			t.Error(err)
		}
	}
	var configuration map[string]any
	get("/.well-known/openid-configuration", "application/json", &configuration)
	want := map[string]any{"issuer": issuer, "jwks_uri": "https://10.0.0.1/openid/v1/jwks",
		"response_types_supported": []any{"id_token"}, "subject_types_supported": []any{"public"},
		"id_token_signing_alg_values_supported": []any{"ES256", "RS256"}}
	if !reflect.DeepEqual(configuration, want) {
		t.Errorf("the configuration = %v, want %v", configuration, want)
	}
	var set struct{ Keys []map[string]string }
	get("/openid/v1/jwks", "application/jwk-set+json", &set)
	if len(set.Keys) != 2 || set.Keys[0]["kty"] != "RSA" || set.Keys[0]["e"] != "AQAB" || set.Keys[1]["crv"] != "P-256" {
		t.Fatalf("the key set = %v, want two keys, RSA with e AQAB and one of P-256", set)
	}
	decode := func(text string) []byte {
		data, err := base64.RawURLEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	point := append([]byte{4}, append(decode(set.Keys[1]["x"]), decode(set.Keys[1]["y"])...)...)
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil || !public.Equal(w.key.Public()) {
		t.Errorf("another key is shown: %v", err)
	}
	recorder := httptest.NewRecorder()
	handlers[serviceaccount.JWKSPath].ServeHTTP(recorder, httptest.NewRequest("POST", serviceaccount.JWKSPath, nil))
	if recorder.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", recorder.Code)
	}
}

// FuzzAuthenticate shows that nothing makes the authenticator panic, that errors
// quote no token, and that only what was signed is believed.
func FuzzAuthenticate(f *testing.F) {
	w := newWorld(f)
	good := w.sign(f, grant())
	parts := strings.Split(good, ".")
	encode := base64.RawURLEncoding.EncodeToString
	f.Add(good)
	f.Add(encode([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".")
	f.Add(parts[0] + "." + encode([]byte(`{"iss":"`+issuer+`","exp":1e300,"nbf":-1e300,"aud":7}`)) + "." + parts[2])
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		u, known, err := w.authenticator.Authenticate(bearing(token))
		if known && strings.TrimSpace(token) != good {
			t.Fatalf("%q is believed to be %s", token, u.Name)
		}
		for part := range strings.SplitSeq(token, ".") {
			if err != nil && len(part) > 20 && strings.Contains(err.Error(), part) {
				t.Fatalf("the error quotes the token: %v", err)
			}
		}
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	w := newWorld(b)
	r := bearing(w.sign(b, grant()))
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, known, err := w.authenticator.Authenticate(r); !known {
				b.Fatal(err)
			}
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := w.keys.Replace(w.key.Public()); err != nil {
				b.Fatal(err)
			}
			if _, known, err := w.authenticator.Authenticate(r); !known {
				b.Fatal(err)
			}
		}
	})
}
