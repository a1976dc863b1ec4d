package identity

import (
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"
)

// A token is made of its parts, each of which a change may replace.
type token struct {
	issuers        *issuers
	key            *key
	header, claims map[string]any
	// The texts of the parts; empty means the JSON of the values above.
	headerText, claimsText string
	encode                 func([]byte) string
	signature              func(signed string) []byte
	whole                  func(string) string
}

// A change makes a token another one.
type change struct {
	name  string
	apply func(*token)
}

// newToken returns one that the issuer of that name signs with its first key.
func newToken(i *issuers, name string) *token {
	k, now := i.keys.published[0], time.Now()
	return &token{issuers: i, key: k, encode: encode,
		header: map[string]any{"alg": k.algorithm, "kid": k.id, "typ": "JWT"},
		claims: map[string]any{"iss": i.url + "/" + name, "aud": "us", "sub": "jane", "email": "jane@example.com", "email_verified": true, "hd": "example.com",
			"groups": []any{"devs", "ops"}, "uid": "7", "iat": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Hour).Unix()},
	}
}

func (t *token) String() string {
	header, claims := t.headerText, t.claimsText
	if header == "" {
		header = text(t.header)
	}
	if claims == "" {
		claims = text(t.claims)
	}
	signed := t.encode([]byte(header)) + "." + t.encode([]byte(claims))
	var signature []byte
	if t.signature != nil {
		signature = t.signature(signed)
	} else {
		algorithm, _ := t.header["alg"].(string)
		signature = t.key.sign(algorithm, signed)
	}
	out := signed + "." + t.encode(signature)
	if t.whole != nil {
		out = t.whole(out)
	}
	return out
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// changes lists all.
func changes(i *issuers) (all []change) {
	add := func(name string, apply func(*token)) { all = append(all, change{name, apply}) }
	add("as it is", func(*token) {})
	claims, headers := claimValues(i), headerValues(i)
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		for _, value := range claims[name] {
			add(fmt.Sprintf("claim %s: %.60s", name, text(value)), func(t *token) { t.claims[name] = value })
		}
		add("no claim "+name, func(t *token) { delete(t.claims, name) })
		add("claim "+name+" in capitals", func(t *token) {
			t.claims[strings.ToUpper(name)] = t.claims[name]
			delete(t.claims, name)
		})
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		for _, value := range headers[name] {
			add(fmt.Sprintf("header %s: %.60s", name, text(value)), func(t *token) { t.header[name] = value })
		}
		add("no header "+name, func(t *token) { delete(t.header, name) })
	}
	for n, k := range append(i.keys.published, i.keys.foreign, i.keys.small) {
		add(fmt.Sprintf("key %d %s", n, k.id), func(t *token) { t.key, t.header["kid"], t.header["alg"] = k, k.id, k.algorithm })
		add(fmt.Sprintf("key %d without its name", n), func(t *token) {
			t.key, t.header["alg"] = k, k.algorithm
			delete(t.header, "kid")
		})
		add(fmt.Sprintf("key %d as the first", n), func(t *token) { t.key, t.header["alg"] = k, k.algorithm })
	}
	for _, algorithm := range []string{"RS384", "RS512", "PS256", "PS384", "PS512"} {
		add("signed by "+algorithm, func(t *token) { t.header["alg"] = algorithm })
	}
	return append(append(all, forgeries()...), spellings()...)
}

// claimValues are values of each claim.
func claimValues(i *issuers) map[string][]any {
	now := time.Now().Unix()
	times := []any{0, -1, 1, now, now - 3600, now + 3600, float64(now+3600) + 0.5, fmt.Sprint(now + 3600), "soon", nil, true, json.Number("1e300"), json.Number("9e18"),
		json.Number("18446744073709551616"), json.Number("-9223372036854775809"), []any{now + 3600}, map[string]any{}}
	names := []any{"", " ", "jane ", "system:admin", "system:masters", "system:node:node-1", "system:serviceaccount:kube-system:default", "system:anonymous", "a\x00b", "zoë", "e\u0301", "\u202ejane", strings.Repeat("x", 3000),
		1, 1.5, true, nil, []any{}, []any{"jane"}, map[string]any{"name": "jane"}, "jane,system:masters", "jane\nX-Remote-User: root"}
	groups := []any{"devs", "", []any{}, []any{""}, []any{"system:masters"}, "system:masters", []any{"devs", "devs"}, []any{1}, []any{nil}, []any{"devs", 2}, []any{[]any{"devs"}}, map[string]any{"devs": true}, 7, true, nil,
		[]any{"system:authenticated"}, []any{"system:unauthenticated"}, []any{"a,b"}}
	return map[string][]any{
		"iss": {i.url, i.url + "/a", i.url + "/b", i.url + "/c", i.url + "/a/", i.url + "/a/../a", strings.ToUpper(i.url) + "/a", strings.Replace(i.url, "https", "http", 1) + "/a", "", nil, 1, []any{i.url + "/a"},
			i.url + "/a?x=1", i.url + "/a#x", "https://kubernetes.default.svc", "https://stock"},
		"aud":            {"us", "them", "", "US", []any{"us"}, []any{"us", "them"}, []any{"them", "us"}, []any{"x"}, []any{}, []any{"us", 1}, []any{1}, nil, 1, map[string]any{"us": true}, "us them", []any{[]any{"us"}}, []any{"us", nil}},
		"sub":            names,
		"email":          names,
		"email_verified": {true, false, "true", "false", nil, 1, []any{true}},
		"groups":         groups,
		"uid":            {"", "8", 8, nil, []any{"8"}, map[string]any{}, true, 1.25, strings.Repeat("7", 3000)},
		"hd":             {"example.com", "EXAMPLE.COM", "", 1, nil, []any{"example.com"}, "evil.com", map[string]any{}},
		"scope":          {"x", "", []any{"x", "y"}, 1, nil, map[string]any{"a": "b"}, []any{""}},
		"scopes":         {"x", "", []any{"x", "y"}, []any{"x", 1}, 1, nil, []any{}, []any{[]any{}}, []any{""}},
		"exp":            times,
		"nbf":            times,
		"iat":            times,
		"_claim_names":   {map[string]any{"groups": "s"}, "s", map[string]any{"sub": "s"}, nil},
		"_claim_sources": {map[string]any{"s": map[string]any{"endpoint": i.url + "/claims"}}, map[string]any{"s": map[string]any{"JWT": "a.b.c"}}, 1},
		"kubernetes.io":  {map[string]any{"namespace": "default", "serviceaccount": map[string]any{"name": "default", "uid": "1"}}},
		"act":            {map[string]any{"sub": "root"}},
		"cnf":            {map[string]any{"x5t#S256": "abc"}},
	}
}

// headerValues are values of each field of the header. The algorithm is what is said, not what signs.
func headerValues(i *issuers) map[string][]any {
	foreign := i.keys.foreign.jwk()
	return map[string][]any{
		"kid":  {"", "RSA", "rsa ", "ec", "second", "enc", "small", "oct", "none", "../../dev/null", "' OR 1=1 --", 1, nil, []any{"rsa"}, strings.Repeat("k", 3000), "rsa\x00"},
		"typ":  {"", "jwt", "at+jwt", "JWE", "JOSE", 1, nil},
		"cty":  {"JWT", "", 1},
		"crit": {[]any{}, []any{"exp"}, []any{"b64"}, []any{"x"}, "exp", nil, []any{1}},
		"b64":  {true, false, nil, "x"},
		"jwk":  {foreign, i.keys.published[0].jwk(), 1, nil, map[string]any{}},
		"jku":  {i.url + "/evil/keys", "file:///etc/passwd", 1},
		"x5u":  {i.url + "/evil/cert"},
		"x5c":  {[]any{"AAAA"}, []any{}, "x", 1, nil, []any{1}},
		"x5t":  {"x", 1},
		"zip":  {"DEF", nil},
		"enc":  {"A128GCM"},
		"exp":  {0},
	}
}

// said replaces the algorithm that the header names.
func said(algorithm any, signature func(*token, string) []byte) func(*token) {
	return func(t *token) {
		t.header["alg"] = algorithm
		t.signature = func(signed string) []byte { return signature(t, signed) }
	}
}

// forgeries have signatures that were made without the key.
func forgeries() (all []change) {
	add := func(name string, apply func(*token)) { all = append(all, change{name, apply}) }
	nothing := func(*token, string) []byte { return nil }
	for _, algorithm := range []any{"none", "None", "NONE", "", "HS256", "RS256", "ES256", "RS1", "ES256K", "EdDSA", "dir", "RSA-OAEP", nil, 1, []any{"RS256"}, "rs256", "RS256 "} {
		add("no signature, alg "+text(algorithm), said(algorithm, nothing))
		add("a right signature, alg "+text(algorithm), said(algorithm, func(t *token, signed string) []byte { return t.key.sign("RS256", signed) }))
	}
	mac := func(key []byte) func(*token, string) []byte {
		return func(_ *token, signed string) []byte {
			h := hmac.New(sha256.New, key)
			h.Write([]byte(signed))
			return h.Sum(nil)
		}
	}
	add("HS256 with the public key", func(t *token) {
		der, err := x509.MarshalPKIXPublicKey(t.key.signer.Public())
		if err != nil {
			panic(err)
		}
		said("HS256", mac(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))(t)
	})
	add("HS256 with the modulus", func(t *token) {
		if public, ok := t.key.signer.Public().(*rsa.PublicKey); ok {
			said("HS256", mac(public.N.Bytes()))(t)
		}
	})
	add("HS256 with the published secret", func(t *token) {
		t.header["kid"] = "oct"
		said("HS256", mac(t.issuers.secret()))(t)
	})
	add("HS256 with nothing", said("HS256", mac(nil)))
	curve := func(name string, signature func(t *token, signed string) []byte) {
		add(name, func(t *token) {
			t.key = t.issuers.keys.published[1]
			t.header["kid"] = t.key.id
			said("ES256", signature)(t)
		})
	}
	curve("r and s are 0", func(*token, string) []byte { return make([]byte, 64) })
	curve("s is 0", func(t *token, signed string) []byte {
		return append(t.key.sign("ES256", signed)[:32], make([]byte, 32)...)
	})
	curve("the signature in ASN.1", func(t *token, signed string) []byte {
		raw := t.key.sign("ES256", signed)
		der, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(raw[:32]), new(big.Int).SetBytes(raw[32:])})
		if err != nil {
			panic(err)
		}
		return der
	})
	curve("r and s are longer", func(t *token, signed string) []byte {
		raw := t.key.sign("ES256", signed)
		return append(append(make([]byte, 4), raw[:32]...), append(make([]byte, 4), raw[32:]...)...)
	})
	curve("one byte more", func(t *token, signed string) []byte { return append(t.key.sign("ES256", signed), 0) })
	curve("one byte less", func(t *token, signed string) []byte { return t.key.sign("ES256", signed)[:63] })
	right := func(t *token, signed string) []byte { return t.key.sign("RS256", signed) }
	add("a bit is another", said("RS256", func(t *token, signed string) []byte { s := right(t, signed); s[9] ^= 1; return s }))
	add("a byte in front", said("RS256", func(t *token, signed string) []byte { return append([]byte{0}, right(t, signed)...) }))
	add("a byte behind", said("RS256", func(t *token, signed string) []byte { return append(right(t, signed), 0) }))
	add("half a signature", said("RS256", func(t *token, signed string) []byte { s := right(t, signed); return s[:len(s)/2] }))
	add("a signature of something else", said("RS256", func(t *token, signed string) []byte { return right(t, signed+"x") }))
	return all
}

// spellings write a token, or a part of it, in other ways.
func spellings() (all []change) {
	add := func(name string, apply func(*token)) { all = append(all, change{name, apply}) }
	whole := func(name string, f func(string) string) { add(name, func(t *token) { t.whole = f }) }
	whole("a dot more", func(s string) string { return s + "." })
	whole("four parts", func(s string) string { return s + ".e30" })
	whole("five parts", func(s string) string { return s + ".e30.e30" })
	whole("a dot in front", func(s string) string { return "." + s })
	whole("two parts", func(s string) string { return s[:strings.LastIndexByte(s, '.')] })
	whole("spaces around", func(s string) string { return "  " + s + "  " })
	whole("a space within", func(s string) string { return strings.Replace(s, ".", ". ", 1) })
	whole("a tab behind", func(s string) string { return s + "\t" })
	whole("an equals sign behind", func(s string) string { return s + "=" })
	whole("the last bits of the signature", func(s string) string {
		const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
		return s[:len(s)-1] + string(alphabet[strings.IndexByte(alphabet, s[len(s)-1])^1])
	})
	whole("a NUL escaped", func(s string) string { return s + "%00" })
	whole("a comma and another", func(s string) string { return s + "," + s })
	whole("a second word", func(s string) string { return s + " " + s })
	add("padded", func(t *token) { t.encode = base64.URLEncoding.EncodeToString })
	add("in the other alphabet", func(t *token) { t.encode = base64.RawStdEncoding.EncodeToString })
	raw := func(name string, f func(string) string) {
		add("claims: "+name, func(t *token) { t.claimsText = f(text(t.claims)) })
		add("header: "+name, func(t *token) { t.headerText = f(text(t.header)) })
	}
	raw("space around", func(s string) string { return " \n" + s + "\n " })
	raw("a byte order mark", func(s string) string { return "\ufeff" + s })
	raw("something behind", func(s string) string { return s + "x" })
	raw("two values", func(s string) string { return s + s })
	raw("a list", func(s string) string { return "[" + s + "]" })
	raw("null", func(string) string { return "null" })
	raw("nothing", func(string) string { return " " })
	raw("a text", func(string) string { return `"x"` })
	raw("invalid UTF-8", func(s string) string { return strings.Replace(s, "{", "{\"\xff\":\"\xfe\",", 1) })
	raw("an escaped name", func(s string) string {
		return strings.NewReplacer(`"sub"`, `"\u0073ub"`, `"alg"`, `"\u0061lg"`).Replace(s)
	})
	raw("half a pair", func(s string) string { return strings.Replace(s, "{", `{"x":"\ud800",`, 1) })
	raw("deep", func(s string) string {
		return strings.Replace(s, "{", `{"x":`+strings.Repeat("[", 500)+strings.Repeat("]", 500)+",", 1)
	})
	add("claims: deeper than a library goes", func(t *token) {
		t.claimsText = strings.Replace(text(t.claims), "{", `{"x":`+strings.Repeat("[", 10_001)+strings.Repeat("]", 10_001)+",", 1)
	})
	for _, twice := range []string{`"sub":"root"`, `"iss":"x"`, `"aud":"them"`, `"exp":1`, `"groups":["system:masters"]`, `"alg":"none"`, `"kid":"ec"`, `"SUB":"root"`, `"Iss":"x"`, `"AUD":"them"`, `"Exp":1`, `"Alg":"none"`, `"KID":"ec"`, `"Groups":["x"]`, `"Email":"x"`} {
		raw("first "+twice, func(s string) string { return "{" + twice + "," + s[1:] })
		raw("last "+twice, func(s string) string { return s[:len(s)-1] + "," + twice + "}" })
	}
	return all
}
