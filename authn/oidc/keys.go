package oidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

const (
	// minRSA is the shortest RSA key that RFC 7518 allows, in bits. maxRSA is the longest that
	// crypto/tls accepts, because verifying with longer ones is too expensive.
	minRSA, maxRSA = 2048, 8192
	// maxKeys bounds a key set. Google publishes two keys, Azure about ten.
	maxKeys = 256
)

// A key verifies tokens.
type key struct {
	id string // empty if the set does not name it
	// algorithm is the key's only algorithm; empty means any that fits the key.
	algorithm string
	public    crypto.PublicKey
}

// fits reports whether the key can be used with algorithm.
func (k *key) fits(algorithm string) bool {
	if k.algorithm != "" && k.algorithm != algorithm {
		return false
	}
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		return algorithm == "ES"+map[int]string{256: "256", 384: "384", 521: "512"}[public.Curve.Params().BitSize]
	}
	return false
}

// jwk is a JSON Web Key (RFC 7517 and RFC 7518, section 6).
type jwk struct {
	Type       string   `json:"kty"`
	Use        string   `json:"use"`
	Operations []string `json:"key_ops"`
	ID         string   `json:"kid"`
	Algorithm  string   `json:"alg"`
	Curve      string   `json:"crv"`
	X          string   `json:"x"`
	Y          string   `json:"y"`
	N          string   `json:"n"`
	E          string   `json:"e"`
}

// parseKeys reads a key set. It ignores unusable keys (RFC 7517, section 5). An empty result is
// valid: the issuer has withdrawn its keys.
func parseKeys(data []byte) ([]key, error) {
	var set struct {
		Keys *[]json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil || set.Keys == nil {
		return nil, errors.New("the document is no key set")
	}
	if len(*set.Keys) > maxKeys {
		return nil, fmt.Errorf("the set has more than %d keys", maxKeys)
	}
	list := []key{}
	for _, raw := range *set.Keys {
		var j jwk
		if json.Unmarshal(raw, &j) != nil || j.Use != "" && j.Use != "sig" || !j.verifies() {
			continue
		}
		if public := j.public(); public != nil {
			list = append(list, key{id: j.ID, algorithm: j.Algorithm, public: public})
		}
	}
	return list, nil
}

// verifies reports whether the key may be used to verify signatures.
func (j *jwk) verifies() bool {
	for _, operation := range j.Operations {
		if operation == "verify" {
			return true
		}
	}
	return len(j.Operations) == 0
}

// public returns the key, or nil if it cannot be used.
func (j *jwk) public() crypto.PublicKey {
	switch j.Type {
	case "RSA":
		return j.rsa()
	case "EC":
		return j.ec()
	}
	return nil
}

func (j *jwk) rsa() crypto.PublicKey {
	n, err1 := decoder.DecodeString(j.N)
	e, err2 := decoder.DecodeString(j.E)
	if err1 != nil || err2 != nil || len(n) > maxRSA/8+1 || len(e) > 4 {
		return nil
	}
	public := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
	bits := public.N.BitLen()
	if bits < minRSA || bits > maxRSA || public.N.Bit(0) == 0 || public.E < 3 || public.E%2 == 0 || public.E > 1<<31-1 {
		return nil
	}
	return public
}

var curves = map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}

func (j *jwk) ec() crypto.PublicKey {
	curve, ok := curves[j.Curve]
	if !ok {
		return nil
	}
	size := (curve.Params().BitSize + 7) / 8
	x, err1 := decoder.DecodeString(j.X)
	y, err2 := decoder.DecodeString(j.Y)
	if err1 != nil || err2 != nil || len(x) != size || len(y) != size {
		return nil
	}
	// This checks that the point is on the curve.
	public, err := ecdsa.ParseUncompressedPublicKey(curve, append(append([]byte{4}, x...), y...))
	if err != nil {
		return nil
	}
	return public
}
