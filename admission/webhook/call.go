package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"time"

	registration "k8s.io/api/admissionregistration/v1"
)

const (
	// maxReply bounds an answer: a patch with the largest object in base64, and the rest of the
	// answer.
	maxReply = 8 << 20
	// idle is how long an idle connection is kept.
	idle = 90 * time.Second
	// idlePerHost is enough to keep the connections of a burst.
	idlePerHost = 25
)

// callers holds the clients of all webhooks by their configuration, so that a connection is kept
// until its configuration changes. It belongs to one goroutine.
type callers struct {
	config *Config
	all    map[string]*caller
}

func newCallers(c *Config) *callers { return &callers{config: c, all: map[string]*caller{}} }

// get returns the caller for w.
func (c *callers) get(w registration.WebhookClientConfig) *caller {
	key, _ := json.Marshal(w) // strings and numbers: it cannot fail
	if c.all[string(key)] == nil {
		c.all[string(key)] = newCaller(w, c.config)
	}
	return c.all[string(key)]
}

// sweep drops the callers that no hook uses.
func (c *callers) sweep(lists ...[]*hook) {
	used := map[*caller]bool{}
	for _, list := range lists {
		for _, h := range list {
			used[h.caller] = true
		}
	}
	for key, caller := range c.all {
		if !used[caller] {
			caller.close()
			delete(c.all, key)
		}
	}
}

func (c *callers) close() { c.sweep() }

// caller calls one webhook.
type caller struct {
	url    url.URL
	client *http.Client
	err    error // why it cannot be called
}

// newCaller returns a caller for w. Errors in w are returned when it is called.
func newCaller(w registration.WebhookClientConfig, c *Config) *caller {
	transport := &http.Transport{
		// Use HTTP/1.1: a single HTTP/2 connection would send all reviews to one endpoint of a
		// service.
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
		MaxIdleConnsPerHost: idlePerHost,
		IdleConnTimeout:     idle,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
	}
	b := &caller{client: &http.Client{
		Transport: transport,
		// Do not follow redirects, which could send the object anywhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if len(w.CABundle) > 0 {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(w.CABundle) {
			b.err = errors.New("unable to load root certificates: no certificate in caBundle")
		}
		transport.TLSClientConfig.RootCAs = pool
	}
	switch {
	case w.Service != nil:
		b.url = serviceURL(w.Service)
		transport.TLSClientConfig.ServerName = b.url.Hostname()
		transport.DialContext = serviceDialer(w.Service, c.Resolver)
	case w.URL != nil:
		u, err := url.Parse(*w.URL)
		if err != nil || u.Scheme != "https" {
			b.err = fmt.Errorf("unusable URL %q: it must be https", *w.URL)
			return b
		}
		b.url = url.URL{Scheme: u.Scheme, Host: u.Host, Path: cleanPath(u.Path), RawPath: u.RawPath}
	default:
		b.err = errors.New("webhook configuration must have either service or URL")
	}
	if c.Certificate != nil {
		server := address(&b.url)
		transport.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			certificate, err := c.Certificate(server)
			if certificate == nil && err == nil {
				certificate = &tls.Certificate{}
			}
			return certificate, err
		}
	}
	return b
}

func servicePort(s *registration.ServiceReference) int32 {
	if s.Port != nil {
		return *s.Port
	}
	return 443
}

func serviceURL(s *registration.ServiceReference) url.URL {
	u := url.URL{Scheme: "https", Host: net.JoinHostPort(s.Name+"."+s.Namespace+".svc", strconv.Itoa(int(servicePort(s))))}
	if s.Path != nil {
		u.Path = cleanPath(*s.Path)
	}
	return u
}

// cleanPath returns the path of a webhook as kube-apiserver asks for it: without empty elements and a slash at its end.
// Servers in Go redirect requests of other paths.
func cleanPath(p string) string { return path.Join("/", p) }

// address returns the host and port of u.
func address(u *url.URL) string {
	if u.Port() == "" {
		return net.JoinHostPort(u.Hostname(), "443")
	}
	return u.Host
}

// serviceDialer returns a function that connects to the current address of s.
func serviceDialer(s *registration.ServiceReference, r Resolver) func(context.Context, string, string) (net.Conn, error) {
	var dialer net.Dialer
	if r == nil {
		return dialer.DialContext
	}
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		at, err := r.Resolve(ctx, s.Namespace, s.Name, servicePort(s))
		if err != nil {
			return nil, err
		}
		return dialer.DialContext(ctx, network, address(at))
	}
}

func (b *caller) close() { b.client.CloseIdleConnections() }

// post sends body and returns the answer. It sends the time left until ctx ends as the timeout.
func (b *caller) post(ctx context.Context, body []byte) ([]byte, error) {
	if b.err != nil {
		return nil, b.err
	}
	to := b.url
	if deadline, ok := ctx.Deadline(); ok {
		seconds := max(1, (time.Until(deadline)+time.Second-1)/time.Second)
		to.RawQuery = fmt.Sprintf("timeout=%ds", seconds)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, */*")
	request.Header.Set("User-Agent", "kube-apiserver-admission")
	reply, err := b.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	data, err := io.ReadAll(io.LimitReader(reply.Body, maxReply+1))
	switch {
	case ctx.Err() != nil:
		// A server can see that the connection is about to close, and answer, before the transport
		// has closed it. Such an answer is often cut short.
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case len(data) > maxReply:
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxReply)
	case reply.StatusCode < 200 || reply.StatusCode > 299:
		return nil, fmt.Errorf("the webhook answered %s", reply.Status)
	}
	return data, nil
}
