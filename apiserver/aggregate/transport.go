package aggregate

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Limits of connections. The pings are those of client-go.
const (
	dialTimeout = 10 * time.Second
	pingAfter   = 30 * time.Second // of silence
	pingTimeout = 15 * time.Second
)

var errClosed = errors.New("the aggregator has ended")

// identity holds what a service's connections depend on.
type identity struct {
	namespace, name string
	insecure        bool
	// upgrade says that requests may turn into something else, which HTTP/2 has no
	// way for.
	upgrade bool
	ca      [sha256.Size]byte
}

func (b *backend) identity(upgrade bool) identity {
	return identity{b.namespace, b.name, b.insecure, upgrade, sha256.Sum256(b.ca)}
}

// transport returns the connections to b's service.
func (b *backend) transport(upgrade bool) (*http.Transport, error) {
	id := b.identity(upgrade)
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.transports[id]; t != nil {
		return t, nil
	}
	if b.closed {
		return nil, errClosed
	}
	config, err := b.tls()
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: !upgrade, MaxIdleConnsPerHost: 32,
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout: 90 * time.Second,
		// Else a server whose machine has vanished keeps its connection for minutes.
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	b.transports[id] = t
	return t, nil
}

// tls verifies the server as what its service is called, wherever it is.
func (b *backend) tls() (*tls.Config, error) {
	config := &tls.Config{ServerName: b.name + "." + b.namespace + ".svc", InsecureSkipVerify: b.insecure, MinVersion: tls.VersionTLS12}
	if len(b.ca) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(b.ca) {
			return nil, fmt.Errorf("service %s/%s: no certificate in the CA bundle", b.namespace, b.name)
		}
	}
	if certificate := b.config.Certificate; certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate() }
	}
	return config, nil
}

// forget gives up the connections to services that t no longer leads to.
func (a *Aggregator) forget(t *table) {
	current := map[identity]bool{}
	for _, b := range t.backends {
		current[b.identity(false)], current[b.identity(true)] = true, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, t := range a.transports {
		if !current[id] {
			t.CloseIdleConnections()
			delete(a.transports, id)
		}
	}
}

// close ends idle connections. Requests under way end on their own; no new ones
// are made.
func (a *Aggregator) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for id, t := range a.transports {
		t.CloseIdleConnections()
		delete(a.transports, id)
	}
}
