package plane

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/extender"
	"github.com/planekit/planekit/schedule/policy"
)

// addExtenders adds the extenders of a file to the configuration of the scheduler.
func addExtenders(config *schedule.Config, list []policy.Extender) (all []*extender.Client, err error) {
	for i, e := range list {
		client, err := newExtender(e)
		if err != nil {
			return nil, fmt.Errorf("plane: extenders[%d]: %w", i, err)
		}
		all = append(all, client)
		config.Extenders = append(config.Extenders, client.Extender())
	}
	return all, nil
}

func newExtender(e policy.Extender) (*extender.Client, error) {
	secure, err := extenderTLS(e)
	if err != nil {
		return nil, err
	}
	c := extender.Config{
		URLPrefix: e.URLPrefix, FilterVerb: e.FilterVerb, PrioritizeVerb: e.PrioritizeVerb, PreemptVerb: e.PreemptVerb, BindVerb: e.BindVerb,
		Weight: e.Weight, TLS: secure, HTTPTimeout: e.HTTPTimeout, NodeCacheCapable: e.NodeCacheCapable, Ignorable: e.Ignorable,
	}
	for _, r := range e.ManagedResources {
		c.ManagedResources = append(c.ManagedResources, extender.ManagedResource(r))
	}
	return extender.New(c)
}

// extenderTLS returns how to connect to an extender; nil if its file says nothing of TLS. With enableHTTPS and
// without a certificate authority, its certificate is not verified, as in kube-scheduler.
func extenderTLS(e policy.Extender) (*tls.Config, error) {
	if e.TLS == nil && !e.EnableHTTPS {
		return nil, nil
	}
	given := cmp.Or(e.TLS, &policy.ExtenderTLS{})
	roots, err := dataOrFile(given.CAData, given.CAFile)
	if err != nil {
		return nil, fmt.Errorf("tlsConfig.caFile: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: given.ServerName, InsecureSkipVerify: given.Insecure || e.EnableHTTPS && len(roots) == 0}
	if len(roots) > 0 {
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(roots) {
			return nil, errors.New("tlsConfig.caData or caFile has no certificate in PEM")
		}
	}
	cert, err := dataOrFile(given.CertData, given.CertFile)
	if err != nil {
		return nil, fmt.Errorf("tlsConfig.certFile: %w", err)
	}
	key, err := dataOrFile(given.KeyData, given.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tlsConfig.keyFile: %w", err)
	}
	if len(cert)+len(key) > 0 {
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("tlsConfig: certificate and key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

func dataOrFile(data []byte, file string) ([]byte, error) {
	if len(data) > 0 || file == "" {
		return data, nil
	}
	return os.ReadFile(file)
}
