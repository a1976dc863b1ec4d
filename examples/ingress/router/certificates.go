package router

import (
	"crypto/tls"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// SetSecret replaces the certificate of a secret of type kubernetes.io/tls, by its key. If the secret has
// no usable certificate, SetSecret returns an error and the one before stays.
func (p *Proxy) SetSecret(key string, secret *corev1.Secret) error {
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return err
	}
	p.certificates.Store(key, &pair)
	return nil
}

// RemoveSecret removes the certificate of a secret.
func (p *Proxy) RemoveSecret(key string) { p.certificates.Delete(key) }

// Certificate returns the certificate for the server name of a client, as [tls.Config] wants it.
func (p *Proxy) Certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if key, ok := p.Table().SecretFor(hello.ServerName); ok {
		if pair, ok := p.certificates.Load(key); ok {
			return pair.(*tls.Certificate), nil
		}
	}
	return nil, fmt.Errorf("no ingress has a certificate for %q", hello.ServerName)
}
