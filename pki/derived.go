package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"math/big"
	"path/filepath"
)

// Derived returns a further authority, which clients of a do not trust. Its first key is derived from
// that of a and from name, so that servers that share a have the same one without another file to copy.
// Its certificate and those that it signs are in the folder name of a's directory.
func (a *Authority) Derived(name string) (*Authority, error) {
	key, err := deriveKey(a.Key, name)
	if err != nil {
		return nil, fmt.Errorf("make certificate %s: %w", name, err)
	}
	subject := "planekit-" + name + "-ca"
	if a.dir != "" {
		return open(filepath.Join(a.dir, name), subject, key)
	}
	pair, err := sign(nil, authorityTemplate(subject), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate %s: %w", name, err)
	}
	return &Authority{Pair: pair}, nil
}

// deriveKey returns a P-256 key that cannot be found without the other key, and from which that cannot be
// found. The 128 additional bits make all keys equally likely (FIPS 186-5, section A.2.1).
func deriveKey(from *ecdsa.PrivateKey, name string) (*ecdsa.PrivateKey, error) {
	secret, err := from.Bytes()
	if err != nil {
		return nil, err
	}
	const size, additional = 32, 16
	random, err := hkdf.Key(sha256.New, secret, nil, "planekit authority "+name, size+additional)
	if err != nil {
		return nil, err
	}
	one := big.NewInt(1)
	scalar := new(big.Int).SetBytes(random)
	scalar.Mod(scalar, new(big.Int).Sub(elliptic.P256().Params().N, one)).Add(scalar, one)
	return ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar.FillBytes(make([]byte, size)))
}
