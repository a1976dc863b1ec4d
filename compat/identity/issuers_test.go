package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A key signs tokens. Those of a published one are believed.
type key struct {
	id, algorithm string
	signer        crypto.Signer
	// use, if set, is the key's use in the set of keys.
	use string
}

// keys holds the keys of all issuers by their purpose.
type keys struct {
	published []*key
	foreign   *key // is in no set
	small     *key // 1024 bits, published
}

func newKeys(t *testing.T) *keys {
	t.Helper()
	return &keys{
		published: []*key{
			{id: "rsa", algorithm: "RS256", signer: newRSA(t, 2048)},
			{id: "ec", algorithm: "ES256", signer: newEC(t, elliptic.P256())},
			{id: "ec384", algorithm: "ES384", signer: newEC(t, elliptic.P384())},
			{id: "second", algorithm: "RS256", signer: newRSA(t, 2048)},
			{id: "second", algorithm: "ES256", signer: newEC(t, elliptic.P256())},
			{id: "", algorithm: "ES256", signer: newEC(t, elliptic.P256())},
			{id: "enc", algorithm: "RS256", signer: newRSA(t, 2048), use: "enc"},
			{id: "other", algorithm: "RS512", signer: newRSA(t, 2048)},
		},
		foreign: &key{id: "rsa", algorithm: "RS256", signer: newRSA(t, 2048)},
		small:   &key{id: "small", algorithm: "RS256", signer: newRSA(t, 1024)},
	}
}

func newRSA(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatalf("rsa.GenerateKey(%d) = %v, want a key", bits, err)
	}
	return k
}

func newEC(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatalf("ecdsa.GenerateKey(%s) = %v, want a key", curve.Params().Name, err)
	}
	return k
}

// jwk describes the public half.
func (k *key) jwk() map[string]any {
	out := map[string]any{"use": "sig", "alg": k.algorithm}
	if k.use != "" {
		out["use"] = k.use
	}
	if k.id != "" {
		out["kid"] = k.id
	}
	switch public := k.signer.Public().(type) {
	case *rsa.PublicKey:
		out["kty"], out["n"], out["e"] = "RSA", encode(public.N.Bytes()), "AQAB"
	case *ecdsa.PublicKey:
		size := (public.Curve.Params().BitSize + 7) / 8
		out["kty"], out["crv"] = "EC", public.Curve.Params().Name
		point, err := public.Bytes()
		if err != nil {
			panic(err)
		}
		out["x"], out["y"] = encode(point[1:1+size]), encode(point[1+size:])
	}
	return out
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// sign returns the signature of a token's two first parts, by the algorithm of its name. A key of another kind signs as it
// can.
func (k *key) sign(algorithm, text string) []byte {
	hash := crypto.SHA256
	switch {
	case strings.HasSuffix(algorithm, "384"):
		hash = crypto.SHA384
	case strings.HasSuffix(algorithm, "512"):
		hash = crypto.SHA512
	}
	h := hash.New()
	h.Write([]byte(text))
	sum := h.Sum(nil)
	switch private := k.signer.(type) {
	case *rsa.PrivateKey:
		var options crypto.SignerOpts = hash
		if strings.HasPrefix(algorithm, "PS") {
			options = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
		}
		out, err := private.Sign(rand.Reader, sum, options)
		if err != nil {
			panic(err)
		}
		return out
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, private, sum)
		if err != nil {
			panic(err)
		}
		size := (private.Curve.Params().BitSize + 7) / 8
		out := make([]byte, 2*size)
		r.FillBytes(out[:size])
		s.FillBytes(out[size:])
		return out
	}
	panic(fmt.Sprintf("no way to sign with a %T", k.signer))
}

// issuers serves the documents of all issuers, /a to /c, over TLS.
type issuers struct {
	url, authority string
	keys           *keys
}

func serve(t *testing.T) *issuers {
	t.Helper()
	i := &issuers{keys: newKeys(t)}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		w.Header().Set("Content-Type", "application/json")
		var document any
		switch path {
		case ".well-known/openid-configuration":
			document = map[string]any{"issuer": i.url + "/" + name, "jwks_uri": i.url + "/" + name + "/keys", "subject_types_supported": []string{"public"},
				"id_token_signing_alg_values_supported": []string{"RS256"}, "response_types_supported": []string{"id_token"}}
		case "keys":
			document = i.set()
		default:
			http.NotFound(w, r)
			return
		}
		if err := json.NewEncoder(w).Encode(document); err != nil {
			t.Logf("%s: %v", r.URL.Path, err)
		}
	}))
	t.Cleanup(server.Close)
	i.url = server.URL
	i.authority = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return i
}

// set is the set of keys, with a symmetric one, one with an unknown curve, and one twice.
func (i *issuers) set() map[string]any {
	var all []any
	for _, k := range append(i.keys.published, i.keys.small) {
		all = append(all, k.jwk())
	}
	all = append(all, map[string]any{"kty": "oct", "kid": "oct", "k": encode(i.secret()), "alg": "HS256"}, i.keys.published[0].jwk())
	return map[string]any{"keys": all}
}

// secret is the symmetric key that the issuers publish.
func (i *issuers) secret() []byte {
	sum := sha256.Sum256([]byte("secret"))
	return sum[:]
}

// configuration is kube-apiserver's file: /a makes users of claims with prefixes, /b without, /c by expressions.
func (i *issuers) configuration() string {
	const text = `apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer: {url: URL/a, audiences: [us], certificateAuthority: CA}
  claimMappings:
    username: {claim: sub, prefix: "a:"}
    groups: {claim: groups, prefix: "a:"}
    uid: {claim: uid}
  claimValidationRules: [{claim: hd, requiredValue: example.com}]
- issuer: {url: URL/b, audiences: [us, them], audienceMatchPolicy: MatchAny, certificateAuthority: CA}
  claimMappings:
    username: {claim: email, prefix: ""}
    groups: {claim: groups, prefix: ""}
- issuer: {url: URL/c, audiences: [us], certificateAuthority: CA}
  claimMappings:
    username: {expression: "claims.sub"}
    groups: {expression: "claims.?groups.orValue([])"}
    uid: {expression: "claims.?uid.orValue('')"}
    extra:
    - {key: example.com/scope, valueExpression: "claims.?scope.orValue('')"}
    - {key: example.com/all, valueExpression: "claims.?scopes.orValue([])"}
  claimValidationRules: [{expression: "claims.?hd.orValue('example.com') == 'example.com'", message: "the domain is another"}]
  userValidationRules: [{expression: "!user.username.startsWith('system:')", message: "reserved"}, {expression: "user.groups.all(g, !g.startsWith('system:'))", message: "reserved"}]
`
	quoted, err := json.Marshal(i.authority)
	if err != nil {
		panic(err)
	}
	return strings.NewReplacer("URL", i.url, "CA}", string(quoted)+"}").Replace(text)
}
