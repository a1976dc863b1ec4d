// Package hookclient calls the webhooks of which a cluster's objects tell: those of admission and of
// the conversion of custom objects.
//
//	c := hookclient.New(hookclient.Config{URL: &url, CABundle: bundle})
//	answer, err := c.Post(ctx, body, 10*time.Second, 8<<20)
//
// A webhook is called over TLS and HTTP/1.1, so that the requests to a service spread over its
// endpoints. Redirects are not followed, because they could send the objects anywhere, and no
// environment variable names a proxy. An answer of any status is an answer. What is wrong with a
// configuration is the error of every call.
package hookclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"time"
)

const (
	// idle is how long an idle connection is kept.
	idle = 90 * time.Second
	// idlePerHost is enough to keep the connections of a burst.
	idlePerHost = 25
)

// A Resolver returns the address of a service. Only the URL's host, which is host:port, is used.
type Resolver interface {
	Resolve(ctx context.Context, namespace, name string, port int32) (*url.URL, error)
}

// Service names a webhook in the cluster.
type Service struct {
	Namespace, Name string
	// Path is the path of the URL; nil is the root.
	Path *string
	// Port is 443 if it is zero.
	Port int32
}

func (s *Service) port() int32 {
	if s.Port != 0 {
		return s.Port
	}
	return 443
}

// Config says where a webhook is: at URL, or at Service if that is set.
type Config struct {
	URL     *string
	Service *Service
	// CABundle has the certificates to trust, in PEM. Without any, those of the system are trusted.
	CABundle []byte
	// Resolver resolves services. Nil dials <name>.<namespace>.svc.
	Resolver Resolver
	// Certificate returns the client certificate for a server, named as host:port. If it, or its
	// result, is nil, no certificate is presented.
	Certificate func(server string) (*tls.Certificate, error)
	// Timeout bounds a call, unless its context ends before. Zero means that only the context does.
	Timeout time.Duration
}

// Client calls one webhook. It is safe for concurrent use.
type Client struct {
	// HTTP sends the requests.
	HTTP *http.Client
	url  url.URL
	err  error // why it cannot be called
}

// New returns a client. Errors in c are returned when it is called.
func New(c Config) *Client {
	transport := &http.Transport{
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
		MaxIdleConnsPerHost: idlePerHost,
		IdleConnTimeout:     idle,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
	}
	b := &Client{HTTP: &http.Client{
		Transport: transport, Timeout: c.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if len(c.CABundle) > 0 {
		transport.TLSClientConfig.RootCAs, b.err = Roots(c.CABundle)
	}
	switch {
	case c.Service != nil:
		b.url = c.Service.url()
		transport.TLSClientConfig.ServerName = b.url.Hostname()
		transport.DialContext = c.Service.dialer(c.Resolver)
	case c.URL != nil:
		u, err := url.Parse(*c.URL)
		if err != nil || u.Scheme != "https" {
			b.err = fmt.Errorf("unusable URL %q: it must be https", *c.URL)
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

// Roots returns the certificates in bundle. Its errors have kube-apiserver's words.
func Roots(bundle []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if pool.AppendCertsFromPEM(bundle) {
		return pool, nil
	}
	return nil, fmt.Errorf("unable to load root certificates: %w", badBundle(bundle))
}

func badBundle(bundle []byte) error {
	for len(bundle) > 0 {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return errors.New("unable to parse bytes as PEM block")
		}
		if block.Type != "CERTIFICATE" || len(block.Headers) != 0 {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return fmt.Errorf("failed to parse certificate: %w", err)
		}
	}
	return errors.New("no valid certificate authority data seen")
}

func (s *Service) url() url.URL {
	u := url.URL{Scheme: "https", Host: net.JoinHostPort(s.Name+"."+s.Namespace+".svc", strconv.Itoa(int(s.port())))}
	if s.Path != nil {
		u.Path = cleanPath(*s.Path)
	}
	return u
}

// dialer returns a function that connects to the current address of s.
func (s *Service) dialer(r Resolver) func(context.Context, string, string) (net.Conn, error) {
	var dialer net.Dialer
	if r == nil {
		return dialer.DialContext
	}
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		at, err := r.Resolve(ctx, s.Namespace, s.Name, s.port())
		if err != nil {
			return nil, err
		}
		return dialer.DialContext(ctx, network, address(at))
	}
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

// Close closes idle connections.
func (b *Client) Close() { b.HTTP.CloseIdleConnections() }

// An Answer holds the response of a webhook.
type Answer struct {
	Code   int
	Status string // such as "404 Not Found"
	Header http.Header
	Body   []byte
}

// Post sends body and returns the answer, whose body has at most limit bytes. The request names
// the timeout in whole seconds.
func (b *Client) Post(ctx context.Context, body []byte, timeout time.Duration, limit int64) (*Answer, error) {
	if b.err != nil {
		return nil, b.err
	}
	to := b.url
	to.RawQuery = fmt.Sprintf("timeout=%ds", max(1, (timeout+time.Second-1)/time.Second))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, */*")
	request.Header.Set("User-Agent", "kube-apiserver-admission")
	reply, err := b.HTTP.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	data, err := io.ReadAll(io.LimitReader(reply.Body, limit+1))
	switch {
	case ctx.Err() != nil:
		// A server can see that the connection is about to close, and answer, before the transport
		// has closed it. Such an answer is often cut short.
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("the answer is larger than %d bytes", limit)
	}
	return &Answer{Code: reply.StatusCode, Status: reply.Status, Header: reply.Header, Body: data}, nil
}
