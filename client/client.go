// Package client talks to a Kubernetes API server: ours or any other.
//
//	c, err := client.New(client.Config{Server: "https://127.0.0.1:6443", TLS: tlsConfig})
//	defer c.Close()
//	pods := typed.Pods(c)
//	pod, err := pods.Get(ctx, "default", "web")
//
// A [Client] sends requests; a [Resource] is a typed view of one kind of object
// on it (package typed has the table of built-in ones) and follows changes with
// Sync. Built-in types travel as protobuf, all others as JSON; a server that
// does not take protobuf is asked again in JSON.
//
// An answer of failure is an *apierrors.StatusError, to be told apart with the
// functions of k8s.io/apimachinery/pkg/api/errors; whatever else fails is an
// error of the transport. Nothing is retried but the change to JSON. Objects
// returned belong to the caller and share no memory with each other, unless it
// is asked for ([Resource.WithUnmarshal]).
//
// Left out: client-side rate limits, credentials that renew themselves, and
// proxies; a Transport of the caller's can have them.
package client

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Config says how a server is reached.
type Config struct {
	// Server is the URL of the server, such as "https://127.0.0.1:6443". A path
	// is kept in front of every request.
	Server string
	// Transport carries the requests; it may be one that never leaves the
	// process. Nil means connections of the client's own, made with TLS.
	Transport http.RoundTripper
	// TLS is the configuration of the client's own connections: the roots to
	// believe and the certificate to show. Nil believes the system's roots. It
	// must be nil when Transport is set.
	TLS *tls.Config
	// BearerToken, when not empty, is sent with every request.
	BearerToken string
	// UserAgent is sent with every request; empty means "planekit".
	UserAgent string
	// JSON turns protobuf off for all types.
	JSON bool
	// Warn, when not nil, is called for every warning in an answer, by many goroutines at once.
	// The text is what the server has sent, control characters and all.
	Warn func(text string)
}

// Client sends requests to one server. It is safe for concurrent use.
type Client struct {
	base      *url.URL
	http      *http.Client
	token     string
	userAgent string
	json      bool
	warn      func(text string)

	// refused holds the resources whose protobuf the server did not take.
	refused sync.Map // schema.GroupVersionResource -> struct{}
}

// A connection on which nothing came for pingAfter is asked for a sign of life
// and given up after pingTimeout more, so that a watch on a dead connection
// ends. Both are the values of client-go, as is dialTimeout.
const (
	dialTimeout = 30 * time.Second
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// New returns a client. It does not connect yet.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.Server)
	if err != nil {
		return nil, fmt.Errorf("client: server: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("client: server %q is not an http or https URL with a host", c.Server)
	}
	if base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("client: the server URL must have no user, query or fragment")
	}
	if c.Transport != nil && c.TLS != nil {
		return nil, errors.New("client: both Transport and TLS are set")
	}
	base.Path = strings.TrimSuffix(base.Path, "/")
	transport := c.Transport
	if transport == nil {
		transport = ownTransport(c.TLS)
	}
	agent := c.UserAgent
	if agent == "" {
		agent = "planekit"
	}
	return &Client{
		base: base, token: c.BearerToken, userAgent: agent, json: c.JSON, warn: c.Warn,
		http: &http.Client{
			Transport: transport,
			// Following a redirect would show the credentials to another server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func ownTransport(config *tls.Config) *http.Transport {
	if config != nil {
		config = config.Clone()
	}
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:     config,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     90 * time.Second,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}

// Close gives up idle connections. The client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) protobuf(resource schema.GroupVersionResource) bool {
	_, refused := c.refused.Load(resource)
	return !c.json && !refused
}
