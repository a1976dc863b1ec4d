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

// A KeySet is the public keys that tokens are verified with. It is safe for
// concurrent use.
type KeySet struct {
	current atomic.Pointer[keys]
}

// keys never change once they are in a set.
type keys struct{ list []publicKey }

type publicKey struct {
	id        string
	algorithm string
	key       crypto.PublicKey
}

// NewKeySet returns a set of *ecdsa.PublicKey (P-256, P-384, P-521) and
// *rsa.PublicKey (of 2048 bits and more), of which there must be one at least.
func NewKeySet(public ...crypto.PublicKey) (*KeySet, error) {
	s := &KeySet{}
	return s, s.Replace(public...)
}

// Replace makes these the keys of the set. From now on, what was signed with
// another is refused. On an error the keys stay as they were.
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

// KeyID is the ID that Kubernetes gives a key: the hash of its encoding.
func KeyID(public crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// algorithmOf is the one algorithm that a key is used with.
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

// forToken returns the keys that t may have been signed with: the one it names,
// or any where it names none, if the algorithm is that of the key. What a header
// declares critical (RFC 7515, section 4.1.11) is not understood here.
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
