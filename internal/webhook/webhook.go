// Package webhook sends reviews to a remote service: it is the client side of Kubernetes'
// authentication and authorization webhooks.
//
//	service, err := webhook.New(webhook.Config{URL: "https://authz.example.com/authorize", TLS: config})
//	status, err := webhook.Ask[Spec, Status](ctx, service, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
//
// A question is one POST of JSON over TLS. As in kube-apiserver, a question is repeated after
// failures that may be temporary, up to [Attempts] times with growing pauses: after refused or
// broken connections, and after the statuses 429 and 5xx. It is not repeated after a timeout,
// because the caller has waited long enough.
//
// Anything other than an answer to the question is an error: a redirect, which is never followed,
// any status other than 2xx, more than [MaxAnswer] bytes, invalid JSON, another kind or version, or
// a missing status. No error contains a credential or a part of the body.
package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxAnswer is the maximum size of an answer, in bytes.
const MaxAnswer = 1 << 20

// DefaultTimeout is the timeout of one attempt.
const DefaultTimeout = 3 * time.Second

// Config describes the service and the credentials for it.
type Config struct {
	// URL is the URL for questions. It must be https.
	URL string
	// TLS has the roots to trust and the certificate to present. Nil trusts the system's roots.
	TLS *tls.Config
	// Transport carries requests instead of connections of the service's own. TLS must then be nil.
	Transport http.RoundTripper
	// BearerToken is sent with every question unless it is empty.
	BearerToken string
	// Timeout limits one attempt, including the answer's body. Zero means [DefaultTimeout].
	Timeout time.Duration
}

// Service is a remote service. It is safe for concurrent use.
type Service struct {
	config Config
	client http.Client
}

// New validates c and returns a Service. It does not connect yet.
func New(c Config) (*Service, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return nil, errors.New("the URL cannot be parsed") // its error quotes the URL, which may contain a password
	case u.Scheme != "https" || u.Host == "":
		return nil, errors.New("the URL must be https://")
	case u.User != nil:
		return nil, errors.New("the URL has credentials in it")
	case c.Timeout < 0:
		return nil, errors.New("the timeout is negative")
	case c.Transport != nil && c.TLS != nil:
		return nil, errors.New("both a transport and TLS are set")
	case strings.ContainsFunc(c.BearerToken, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return nil, errors.New("the bearer token has characters that no header can carry")
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Transport == nil {
		c.Transport = transport(c.TLS)
	}
	s := &Service{config: c}
	s.client = http.Client{
		Transport:     c.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// transport returns a transport without a proxy, because this package does not read the
// environment.
func transport(config *tls.Config) *http.Transport {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return &http.Transport{
		TLSClientConfig:        config.Clone(),
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    32, // concurrent questions to a service that supports only HTTP/1
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		// A connection whose other end is gone is closed. Otherwise every question would use it
		// until the kernel gives up.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// Close closes idle connections.
func (s *Service) Close() { s.client.CloseIdleConnections() }

type review[Spec, Status any] struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Spec       *Spec   `json:"spec,omitempty"`
	Status     *Status `json:"status,omitempty"`
}

// Ask sends a review with spec to s and returns the status in the answer.
func Ask[Spec, Status any](ctx context.Context, s *Service, apiVersion, kind string, spec Spec) (Status, error) {
	var status Status
	question, err := json.Marshal(review[Spec, Status]{APIVersion: apiVersion, Kind: kind, Spec: &spec})
	if err != nil {
		return status, err
	}
	body, err := s.ask(ctx, question)
	if err != nil {
		return status, err
	}
	// The spec in the answer is ignored and need not be valid.
	var answer review[json.RawMessage, Status]
	if !utf8.Valid(body) {
		return status, errors.New("the answer is not UTF-8")
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return status, errors.New("the answer is not the JSON of a " + kind)
	}
	switch {
	case answer.APIVersion != apiVersion || answer.Kind != kind:
		return status, fmt.Errorf("the answer is no %s of %s", kind, apiVersion)
	case answer.Status == nil:
		return status, errors.New("the answer has no status")
	}
	return *answer.Status, nil
}

// attempt sends the question once.
func (s *Service) attempt(ctx context.Context, question []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.config.URL, bytes.NewReader(question))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "planekit")
	if s.config.BearerToken != "" {
		r.Header.Set("Authorization", "Bearer "+s.config.BearerToken)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, MaxAnswer+1))
	switch {
	case ctx.Err() != nil:
		// A server can see that the connection is about to close, and answer, before the transport
		// has closed it. Such an answer is often cut short.
		return nil, ctx.Err()
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return nil, &statusError{answer.StatusCode, answer.Header.Get("Retry-After") != ""}
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case len(body) > MaxAnswer:
		return nil, fmt.Errorf("the answer has more than %d bytes", MaxAnswer)
	}
	return body, nil
}
