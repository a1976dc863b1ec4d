package serviceaccount

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"slices"
)

// The paths at which OpenID Connect clients find the keys.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	JWKSPath          = "/openid/v1/jwks"
)

// Handlers returns handlers by path for the discovery document of issuer (OpenID Connect Discovery
// 1.0) and the keys (RFC 7517), so that other servers can verify tokens. jwksURI is the URL at
// which their clients reach [JWKSPath].
func Handlers(issuer, jwksURI string, keys *KeySet) map[string]http.Handler {
	return map[string]http.Handler{
		ConfigurationPath: document("application/json", func() (any, error) { return configuration(issuer, jwksURI, keys), nil }),
		JWKSPath:          document("application/jwk-set+json", func() (any, error) { return keys.jwks() }),
	}
}

func document(media string, make func() (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		content, err := make()
		if err != nil {
			http.Error(w, "the keys cannot be shown", http.StatusInternalServerError)
			return
		}
		data, err := json.Marshal(content)
		if err != nil {
			http.Error(w, "the keys cannot be shown", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", media)
		w.Header().Set("Cache-Control", "public, max-age=3600") // as in Kubernetes
		w.Write(data)
	})
}

type provider struct {
	Issuer        string   `json:"issuer"`
	JWKSURI       string   `json:"jwks_uri"`
	ResponseTypes []string `json:"response_types_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
	Algorithms    []string `json:"id_token_signing_alg_values_supported"`
}

func configuration(issuer, jwksURI string, s *KeySet) provider {
	p := provider{Issuer: issuer, JWKSURI: jwksURI, ResponseTypes: []string{"id_token"}, SubjectTypes: []string{"public"}}
	for _, k := range s.current.Load().list {
		if !slices.Contains(p.Algorithms, k.algorithm) {
			p.Algorithms = append(p.Algorithms, k.algorithm)
		}
	}
	slices.Sort(p.Algorithms)
	return p
}

type jwk struct {
	Use       string `json:"use"`
	Type      string `json:"kty"`
	ID        string `json:"kid"`
	Curve     string `json:"crv,omitempty"`
	Algorithm string `json:"alg"`
	X         string `json:"x,omitempty"`
	Y         string `json:"y,omitempty"`
	N         string `json:"n,omitempty"`
	E         string `json:"e,omitempty"`
}

type jwkSet struct {
	Keys []jwk `json:"keys"`
}

func (s *KeySet) jwks() (jwkSet, error) {
	set := jwkSet{Keys: []jwk{}}
	for _, k := range s.current.Load().list {
		shown, err := k.jwk()
		if err != nil {
			return jwkSet{}, err
		}
		set.Keys = append(set.Keys, shown)
	}
	return set, nil
}

func (k publicKey) jwk() (jwk, error) {
	j := jwk{Use: "sig", ID: k.id, Algorithm: k.algorithm}
	encode := base64.RawURLEncoding.EncodeToString
	switch public := k.key.(type) {
	case *ecdsa.PublicKey:
		point, err := public.Bytes() // 4, X, Y
		if err != nil {
			return jwk{}, err
		}
		half := (len(point) - 1) / 2
		j.Type, j.Curve = "EC", public.Curve.Params().Name
		j.X, j.Y = encode(point[1:1+half]), encode(point[1+half:])
	case *rsa.PublicKey:
		j.Type = "RSA"
		j.N, j.E = encode(public.N.Bytes()), encode(big.NewInt(int64(public.E)).Bytes())
	default:
		return jwk{}, fmt.Errorf("a %T cannot be shown", k.key)
	}
	return j, nil
}
