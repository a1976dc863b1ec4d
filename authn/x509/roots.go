package x509

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// ParseRoots reads authorities from a PEM file such as kube-apiserver's --client-ca-file. Other
// blocks and text between blocks are ignored. An invalid certificate is an error, because its users
// would be locked out, and so is a file without certificates.
func ParseRoots(file []byte) (*x509.CertPool, error) {
	pool, n, begun := x509.NewCertPool(), 0, bytes.Count(file, []byte("-----BEGIN CERTIFICATE-----"))
	for {
		block, rest := pem.Decode(file)
		if block == nil {
			break
		}
		file = rest
		if block.Type != "CERTIFICATE" {
			continue
		}
		n++
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", n, err)
		}
		pool.AddCert(certificate)
	}
	switch {
	case n != begun:
		return nil, fmt.Errorf("%d certificates begin, but only %d are well-formed PEM", begun, n)
	case n == 0:
		return nil, errors.New("no certificate")
	}
	return pool, nil
}
