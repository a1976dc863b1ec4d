package main

import (
	"crypto/tls"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// setSecret reads the certificate of a secret. One that cannot be used is said by an event, and the one
// before stays.
func (c *controller) setSecret(key string) {
	namespace, name, _ := strings.Cut(key, "/")
	secret, ok := c.secrets.Get(key)
	if !ok {
		c.keepCertificate(key, nil)
		c.warn(namespace, "", name, "InvalidCertificate", "there is no secret "+name+" of type "+string(corev1.SecretTypeTLS))
		return
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		c.warn(namespace, "", name, "InvalidCertificate", "secret "+name+": "+err.Error())
		return
	}
	c.keepCertificate(key, &pair)
}

// keepCertificate replaces the certificate of a secret, or removes it.
func (c *controller) keepCertificate(name string, pair *tls.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if pair == nil {
		delete(c.certificates, name)
		return
	}
	c.certificates[name] = pair
}

// certificate returns the certificate for the server name of a client.
func (c *controller) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if name, ok := c.proxy.Table().SecretFor(hello.ServerName); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		if pair := c.certificates[name]; pair != nil {
			return pair, nil
		}
	}
	return nil, fmt.Errorf("no ingress has a certificate for %q", hello.ServerName)
}
