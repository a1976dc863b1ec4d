package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/planekit/planekit/internal/wholefile"
)

const keyBlock = "EC PRIVATE KEY"

// Key reads the private key in file, or creates a P-256 key. A key does not expire: its signatures
// stay valid as long as the file is kept.
func Key(file string) (*ecdsa.PrivateKey, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return newKey(file)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != keyBlock {
		return nil, fmt.Errorf("%s: no %s in PEM", file, keyBlock)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return key, nil
}

func newKey(file string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, wholefile.Write(file, pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), 0o600)
}
