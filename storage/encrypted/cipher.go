package encrypted

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"strings"

	"github.com/planekit/planekit/storage"
)

const (
	// sealed is the prefix of every value that kube-apiserver has encrypted, by any provider.
	sealed = "k8s:enc:"
	// sealedGCM is followed by the name of the key, a colon, the nonce and the AES-GCM ciphertext.
	sealedGCM = sealed + "aesgcm:v1:"
)

// A Cipher is an AES key or, with an empty Key, the identity, which leaves values unchanged and
// does not read encrypted ones.
type Cipher struct {
	// Name identifies the key within its rule. It is stored with every value, so it must not
	// change. It must not contain a colon. The identity has no name.
	Name string
	// Key is 16, 24 or 32 random bytes.
	Key []byte
}

// String keeps keys out of logs.
func (c Cipher) String() string {
	if len(c.Key) == 0 {
		return "identity"
	}
	return "aesgcm " + c.Name
}

// GoString keeps keys out of logs.
func (c Cipher) GoString() string { return c.String() }

// A sealer is a Cipher ready for use; aead is nil for the identity.
type sealer struct {
	header []byte // of the values that it writes
	aead   cipher.AEAD
}

func newSealer(c Cipher) (*sealer, error) {
	if len(c.Key) == 0 {
		if c.Name != "" {
			return nil, fmt.Errorf("cipher %q without a key", c.Name)
		}
		return &sealer{}, nil
	}
	if c.Name == "" || strings.Contains(c.Name, ":") {
		return nil, fmt.Errorf("cipher %q: its name may not be empty or contain a colon", c.Name)
	}
	block, err := aes.NewCipher(c.Key)
	if err != nil {
		return nil, fmt.Errorf("cipher %q: a key of %d bytes, want 16, 24 or 32", c.Name, len(c.Key))
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("cipher %q: %w", c.Name, err)
	}
	return &sealer{header: []byte(sealedGCM + c.Name + ":"), aead: aead}, nil
}

// seal returns what to store for value.
func (s *sealer) seal(key storage.Key, value []byte) ([]byte, error) {
	if s.aead != nil {
		room := make([]byte, len(s.header), len(s.header)+len(value)+s.aead.Overhead())
		copy(room, s.header)
		return s.aead.Seal(room, nil, value, []byte(key)), nil
	}
	if bytes.HasPrefix(value, []byte(sealed)) {
		return nil, fmt.Errorf("a value that begins with %q reads as encrypted: %w", sealed, storage.ErrInvalid)
	}
	return value, nil
}

// reads reports whether s can open stored.
func (s *sealer) reads(stored []byte) bool {
	if s.aead == nil {
		return !bytes.HasPrefix(stored, []byte(sealed))
	}
	return bytes.HasPrefix(stored, s.header)
}

// open returns the value from which stored was made.
func (s *sealer) open(key storage.Key, stored []byte) ([]byte, error) {
	if s.aead == nil {
		return stored, nil
	}
	value, err := s.aead.Open(nil, nil, stored[len(s.header):], []byte(key))
	if err != nil {
		// Drop the error of AES-GCM, which says no more than this one.
		return nil, errors.New("it was changed, or written under another key")
	}
	return value, nil
}

// A ring holds the ciphers of a rule; the first one writes.
type ring []*sealer

func newRing(ciphers []Cipher) (ring, error) {
	if len(ciphers) == 0 {
		return nil, errors.New("no ciphers")
	}
	seen := map[string]bool{}
	var r ring
	for _, c := range ciphers {
		s, err := newSealer(c)
		if err != nil {
			return nil, err
		}
		if seen[c.Name] {
			return nil, fmt.Errorf("%v twice", c)
		}
		seen[c.Name] = true
		r = append(r, s)
	}
	return r, nil
}

// open returns the value of a record, and reports whether a cipher other than the first sealed it.
func (r ring) open(key storage.Key, stored []byte) (value []byte, stale bool, err error) {
	for i, s := range r {
		if s.reads(stored) {
			value, err = s.open(key, stored)
			return value, i > 0, err
		}
	}
	if rest, ok := bytes.CutPrefix(stored, []byte(sealedGCM)); ok {
		name, _, _ := bytes.Cut(rest[:min(len(rest), longestName)], []byte(":"))
		return nil, false, fmt.Errorf("the cipher %q is not configured", name)
	}
	if bytes.HasPrefix(stored, []byte(sealed)) {
		return nil, false, errors.New("it was encrypted by unknown means")
	}
	return nil, false, errors.New("it is not encrypted")
}

// longestName bounds the part of a broken value that an error quotes, in bytes.
const longestName = 64
