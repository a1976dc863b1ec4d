// Package client talks to a Kubernetes API server: planekit's or any other.
//
//	c, err := client.New(client.Config{Server: "https://127.0.0.1:6443", TLS: tlsConfig})
//	defer c.Close()
//	pods := typed.Pods(c)
//	pod, err := pods.Get(ctx, "default", "web")
//
// A [Client] sends requests. A [Resource] is a typed view of one resource: [For] makes one for a
// [kind.Kind], and package typed has those of the built-in kinds. A Resource reads, writes and deletes
// objects, and its Sync method follows changes, so that it serves as the source of an informer.
// Built-in types travel as protobuf, all others as JSON. If a server does not accept protobuf, the
// client repeats the request in JSON.
//
// If the server answers with a failure, the error is an *apierrors.StatusError; the functions of
// k8s.io/apimachinery/pkg/api/errors distinguish the reasons. Any other error comes from the
// transport. The client retries nothing except to change to JSON. Returned objects belong to the
// caller and share no memory with each other, unless the caller asks for it
// ([Resource.WithUnmarshal]).
//
// Left out: client-side rate limits, tokens that renew themselves, and proxies. A Transport of the
// caller can have them.
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

// Config describes how to reach a server.
type Config struct {
	// Server is the URL of the server, such as "https://127.0.0.1:6443". Its path, if any, is a
	// prefix of every request path.
	Server string
	// Transport carries the requests; it may stay within the process. Nil means connections of the
	// client's own, made with TLS.
	Transport http.RoundTripper
	// TLS configures the client's own connections: the roots to trust and the certificate to
	// present. Nil trusts the system's roots. It must be nil when Transport is set.
	TLS *tls.Config
	// Certificate, made by [Follow], is a certificate to present to the server that may change,
	// instead of those of TLS. Nil means none. It is not used with a Transport.
	Certificate *Certificate
	// BearerToken is sent with every request unless it is empty.
	BearerToken string
	// Tokens, if not nil, has the tokens to send instead of BearerToken.
	Tokens Tokens
	// UserAgent is sent with every request; empty means "planekit".
	UserAgent string
	// JSON disables protobuf for all types.
	JSON bool
	// Warn, if not nil, receives every warning in an answer. Several goroutines may call it at
	// once. The text is exactly what the server sent, including control characters.
	Warn func(text string)
}

// Tokens has a bearer token that may change. Its methods are called by several goroutines at once.
type Tokens interface {
	// Token returns the token for a request; empty means none.
	Token() string
	// Refused is called when the server has answered a request with that token by 401.
	Refused(token string)
}

// A Client sends requests to one server. It is safe for concurrent use.
type Client struct {
	base      *url.URL
	http      *http.Client
	token     string
	tokens    Tokens // may be nil
	userAgent string
	json      bool
	warn      func(text string)

	// refused holds the resources for which the server did not accept protobuf.
	refused sync.Map // schema.GroupVersionResource -> struct{}
}

// After pingAfter without data the client pings the server, and after pingTimeout more it closes
// the connection, so that a watch on a dead connection ends. These two and dialTimeout are the
// values of client-go.
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
	switch {
	case transport != nil:
	case c.Certificate != nil:
		transport = c.Certificate.transport(c.TLS)
	default:
		transport = ownTransport(c.TLS)
	}
	agent := c.UserAgent
	if agent == "" {
		agent = "planekit"
	}
	return &Client{
		base: base, token: c.BearerToken, tokens: c.Tokens, userAgent: agent, json: c.JSON, warn: c.Warn,
		http: &http.Client{
			Transport: transport,
			// A followed redirect would send the credentials to another server.
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

// Close closes idle connections. The client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) protobuf(resource schema.GroupVersionResource) bool {
	_, refused := c.refused.Load(resource)
	return !c.json && !refused
}
