package oidc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// FuzzToken: nothing that is not signed is believed, whatever it says.
func FuzzToken(f *testing.F) {
	encode := base64.RawURLEncoding.EncodeToString
	for _, seed := range []struct{ header, payload, signature string }{
		{`{"alg":"ES256","kid":"1"}`, `{"iss":"https://op","aud":"a","exp":9999999999,"sub":"x"}`, strings.Repeat("s", 64)},
		{`{"alg":"none"}`, `{"iss":"https://op","aud":["a"],"exp":1e300,"sub":"x"}`, ""},
		{`{"alg":"HS256","crit":[]}`, `{"iss":"https://op"}`, "s"},
		{`{"alg":"RS256","kid":null}`, `{"iss":null,"iss":"https://op"}`, "s"},
		{`null`, `null`, ""},
	} {
		f.Add(encode([]byte(seed.header)) + "." + encode([]byte(seed.payload)) + "." + encode([]byte(seed.signature)))
	}
	f.Add("a.b.c")
	a, err := New(Config{Issuers: []Issuer{{URL: "https://op", ClientIDs: []string{"a"}, Algorithms: algorithms}}})
	if err != nil {
		f.Fatal(err)
	}
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		f.Fatal(err)
	}
	a.providers["https://op"].current = &keySet{list: []key{{id: "1", public: secret.Public()}, {public: long.Public()}}}
	f.Fuzz(func(t *testing.T, token string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = []string{"Bearer " + token}
		u, known, err := a.Authenticate(r)
		if u != nil || known {
			t.Fatalf("%q is believed", token)
		}
		if err == nil && issuerOf(token) == "https://op" {
			t.Fatalf("%q is refused without a reason", token)
		}
		if token = strings.TrimSpace(token); err != nil && len(token) > 32 && strings.Contains(err.Error(), token) {
			t.Fatalf("the error quotes the token: %v", err)
		}
	})
}

// FuzzKeys: what is taken for a key can be verified with.
func FuzzKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","use":"sig"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"` + strings.Repeat("q", 342) + `","e":"AQAB"},{"kty":"RSA","n":"AQ","e":"AQABAQAB"}]}`))
	f.Add([]byte(`{"keys":[null,{},7,{"kty":"EC","crv":"P-521","x":"","y":""}]}`))
	f.Add([]byte(`{"keys":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := parseKeys(data)
		if err != nil && list != nil || len(list) > maxKeys {
			t.Fatalf("%d keys, %v", len(list), err)
		}
		for _, k := range list {
			if r, ok := k.public.(*rsa.PublicKey); ok && (r.N.BitLen() < minRSA || r.N.BitLen() > maxRSA || r.E < 3) {
				t.Fatalf("an RSA key of %d bits", r.N.BitLen())
			}
			for _, a := range algorithms {
				s := &signed{algorithm: a, kid: k.id, text: "a.b", signature: make([]byte, 64)}
				if _, err := s.verify(list); err == nil {
					t.Fatal("zeroes are a signature")
				}
			}
		}
	})
}

// FuzzDiscovery: only the issuer's own document counts, and leads to https.
func FuzzDiscovery(f *testing.F) {
	f.Add([]byte(`{"issuer":"https://op","jwks_uri":"https://op/keys"}`))
	f.Add([]byte(`{"issuer":"https://op/","jwks_uri":"https://op/keys"}`))
	f.Add([]byte(`{"issuer":"https://op","jwks_uri":"https://u:p@op/keys"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		where, err := parseDiscovery(data, "https://op")
		if (err == nil) != strings.HasPrefix(strings.ToLower(where), "https://") {
			t.Fatalf("parseDiscovery(%q) = %q, %v, want either an error or an https URL", data, where, err)
		}
	})
}

// FuzzClaims: a user has a name, and what is not there is not made up.
func FuzzClaims(f *testing.F) {
	f.Add([]byte(`{"iss":"https://op","aud":"a","exp":9999999999,"nbf":1,"email":"x@y","email_verified":true,"groups":["g"],"team":"t","jti":"1","hd":"h"}`))
	f.Add([]byte(`{"iss":"https://op","aud":["b","a"],"exp":1e400,"nbf":-1e300,"email":"","groups":null,"hd":null}`))
	f.Add([]byte(`{"exp":"1","email":"x","email":7,"GROUPS":["g"],"groups":["a",null]}`))
	i := Issuer{URL: "https://op", ClientIDs: []string{"a"}, UsernameClaim: "email", GroupsClaim: "groups", GroupsPrefix: "o:",
		ExtraClaims: map[string]string{"team": "team"}, RequiredClaims: map[string]string{"hd": "h"}}.completed()
	now := time.Unix(1e9, 0)
	f.Fuzz(func(t *testing.T, payload []byte) {
		c, err := parseClaims(payload)
		if err != nil {
			if !errors.Is(err, errMalformed) {
				t.Fatal(err)
			}
			return
		}
		if i.holds(c, now) == nil {
			end, ok := c.moment("exp")
			aud, _ := c.texts("aud")
			if !ok || end.Before(now) || len(aud) == 0 {
				t.Fatalf("%s holds", payload)
			}
		}
		u, err := i.user(c)
		if (err == nil) != (u != nil) || u != nil && u.Name == "" {
			t.Fatalf("the user of %s = %v, %v, want either an error or a user with a name", payload, u, err)
		}
		if u == nil {
			return
		}
		for _, g := range u.Groups {
			if !strings.HasPrefix(g, "o:") {
				t.Fatalf("group %q", g)
			}
		}
	})
}
