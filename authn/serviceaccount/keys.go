package serviceaccount

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/golang-jwt/jwt/v5"
)

// minRSA is the shortest RSA key that RFC 7518 allows, in bits.
const minRSA = 2048

// A KeySet holds the public keys that verify tokens. It is safe for concurrent use.
type KeySet struct {
	current atomic.Pointer[keys]
}

// keys is an immutable list of keys.
type keys struct{ list []publicKey }

type publicKey struct {
	id        string
	algorithm string
	key       crypto.PublicKey
}

// NewKeySet returns a set of *ecdsa.PublicKey (P-256, P-384, P-521) and *rsa.PublicKey (at least
// 2048 bits). It must not be empty.
func NewKeySet(public ...crypto.PublicKey) (*KeySet, error) {
	s := &KeySet{}
	return s, s.Replace(public...)
}

// Replace replaces the keys of the set. Tokens signed with other keys are refused from now on. On
// an error the keys stay the same.
func (s *KeySet) Replace(public ...crypto.PublicKey) error {
	if len(public) == 0 {
		return errors.New("service account keys: none given")
	}
	next := &keys{}
	for i, p := range public {
		key, err := newPublicKey(p)
		if err != nil {
			return fmt.Errorf("service account keys: key %d: %w", i+1, err)
		}
		next.list = append(next.list, key)
	}
	s.current.Store(next)
	return nil
}

func newPublicKey(public crypto.PublicKey) (publicKey, error) {
	algorithm, err := algorithmOf(public)
	if err != nil {
		return publicKey{}, err
	}
	id, err := KeyID(public)
	return publicKey{id: id, algorithm: algorithm, key: public}, err
}

// KeyID returns the ID that Kubernetes gives a key, the hash of its encoding.
func KeyID(public crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// algorithmOf returns the only algorithm that is used with the key.
func algorithmOf(public crypto.PublicKey) (string, error) {
	switch k := public.(type) {
	case *ecdsa.PublicKey:
		switch k.Curve.Params().BitSize {
		case 256:
			return "ES256", nil
		case 384:
			return "ES384", nil
		case 521:
			return "ES512", nil
		}
		return "", fmt.Errorf("curve %s is not supported", k.Curve.Params().Name)
	case *rsa.PublicKey:
		if k.N.BitLen() < minRSA {
			return "", fmt.Errorf("an RSA key of %d bits is too short, %d is the least", k.N.BitLen(), minRSA)
		}
		return "RS256", nil
	}
	return "", fmt.Errorf("a %T is not supported", public)
}

// forToken returns the keys that may have signed t: the one that it names, or any key, if the
// algorithm fits. Critical header parameters (RFC 7515, section 4.1.11) are not supported.
func (k *keys) forToken(t *jwt.Token) (any, error) {
	id, named := t.Header["kid"]
	if _, critical := t.Header["crit"]; critical {
		return nil, errSignature
	}
	var set jwt.VerificationKeySet
	for _, key := range k.list {
		if (!named || id == key.id) && key.algorithm == t.Method.Alg() {
			set.Keys = append(set.Keys, key.key)
		}
	}
	return set, nil
}
