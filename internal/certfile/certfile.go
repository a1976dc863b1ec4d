// Package certfile reads certificates, keys and authorities from files and follows the files.
//
// A value stays as it is while its files are missing, incomplete or wrong, and follows them once they
// are valid again. A certificate and its key are two files: in the moment between two writes they do
// not match, which is an error like the others. Pipes and devices are not opened.
package certfile

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/planekit/planekit/internal/lastvalid"
)

// maxSize bounds a file, in bytes. A bundle of all public authorities has about 250 KiB.
const maxSize = 4 << 20

// Pair reads a certificate with its chain, and its key, in PEM.
func Pair(certificate, key string) (*lastvalid.Value[*tls.Certificate], error) {
	return open([]string{certificate, key}, func(contents [][]byte) (*tls.Certificate, error) {
		return ParsePair(contents[0], contents[1])
	})
}

// ValidPair is [Pair] for a certificate that must be valid at the time when its files are read.
func ValidPair(certificate, key string) (*lastvalid.Value[*tls.Certificate], error) {
	return open([]string{certificate, key}, func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := ParsePair(contents[0], contents[1])
		if err != nil {
			return nil, err
		}
		switch now := time.Now(); {
		case now.After(pair.Leaf.NotAfter):
			return nil, fmt.Errorf("the certificate expired at %s", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
		case now.Before(pair.Leaf.NotBefore):
			return nil, fmt.Errorf("the certificate is not valid before %s", pair.Leaf.NotBefore.UTC().Format(time.RFC3339))
		}
		return pair, nil
	})
}

// Authorities reads a bundle of authorities in PEM.
func Authorities(bundle string) (*lastvalid.Value[*x509.CertPool], error) {
	return open([]string{bundle}, func(contents [][]byte) (*x509.CertPool, error) {
		return ParseAuthorities(contents[0])
	})
}

// open follows files. Errors name them and never quote a key.
func open[T any](paths []string, parse func([][]byte) (T, error)) (*lastvalid.Value[T], error) {
	return lastvalid.New(func() (contents [][]byte, err error) {
		for _, path := range paths {
			data, err := Read(path)
			if err != nil {
				return nil, err
			}
			contents = append(contents, data)
		}
		return contents, nil
	}, func(contents [][]byte) (T, error) {
		value, err := parse(contents)
		if err != nil {
			return value, fmt.Errorf("%s: %w", join(paths), err)
		}
		return value, nil
	})
}

func join(paths []string) string {
	if len(paths) == 2 && paths[0] != paths[1] {
		return paths[0] + " and " + paths[1]
	}
	return paths[0]
}

// Read reads a regular file of bounded size. It does not wait for a pipe.
func Read(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	data, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err == nil && len(data) > maxSize {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("more than %d bytes", maxSize)}
	}
	return data, err
}

// ParsePair parses a certificate with its chain, and its key. It refuses texts that end inside a
// block, because a chain without its end still has a valid certificate.
func ParsePair(certificate, key []byte) (*tls.Certificate, error) {
	if _, err := blocks(certificate); err != nil {
		return nil, err
	}
	if list, _ := blocks(key); slices.ContainsFunc(list, isEncrypted) {
		return nil, errors.New("the key is encrypted")
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

// isEncrypted reports whether a block is a key that needs a passphrase, in PKCS #8 or in the form of RFC 1421.
func isEncrypted(block *pem.Block) bool {
	return block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED")
}

// ParseAuthorities parses a bundle, which must have an authority.
func ParseAuthorities(bundle []byte) (*x509.CertPool, error) {
	list, err := blocks(bundle)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	found := false
	for _, block := range list {
		if block.Type != "CERTIFICATE" {
			continue
		}
		authority, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		pool.AddCert(authority)
		found = true
	}
	if !found {
		return nil, errors.New("no certificate in PEM form")
	}
	return pool, nil
}

// blocks returns the blocks of a text in PEM.
func blocks(text []byte) ([]*pem.Block, error) {
	var list []*pem.Block
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		list, text = append(list, block), rest
	}
	if bytes.Contains(text, []byte("-----BEGIN")) {
		return nil, errors.New("the last block is incomplete")
	}
	return list, nil
}
