// Package webhook puts reviews to a remote service: the side of Kubernetes'
// authentication and authorization webhooks that asks.
//
//	service, err := webhook.New(webhook.Config{URL: "https://authz.example.com/authorize", TLS: config})
//	status, err := webhook.Ask[Spec, Status](ctx, service, "authorization.k8s.io/v1", "SubjectAccessReview", spec)
//
// A question is one POST of JSON over TLS. What may pass by itself is asked
// again, up to [Attempts] times with growing pauses in between, as
// kube-apiserver does: connections that are refused or break, and the statuses
// 429 and 5xx. A time-out is not: whoever waits has waited long enough.
//
// Whatever is not an answer to the question is an error: a redirect, which is
// never followed, another status than 2xx, more than [MaxAnswer] bytes, what is
// not JSON, another kind or version, no status. No error has a credential in it,
// nor anything of the body.
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

// MaxAnswer is how many bytes of an answer are read.
const MaxAnswer = 1 << 20

// DefaultTimeout is for one attempt.
const DefaultTimeout = 3 * time.Second

// Config says where the service is and how one is known there.
type Config struct {
	// URL is where to post to. It must be https.
	URL string
	// TLS has the roots to believe and the certificate to show. Nil believes the
	// system's roots.
	TLS *tls.Config
	// Transport carries requests in place of connections of one's own. TLS must
	// be nil then.
	Transport http.RoundTripper
	// BearerToken, if not empty, is sent with every question.
	BearerToken string
	// Timeout is for one attempt, the answer's body included. Zero is
	// [DefaultTimeout].
	Timeout time.Duration
}

// Service is a remote service. It is safe for concurrent use.
type Service struct {
	config Config
	client http.Client
}

// New checks c and connects to nothing.
func New(c Config) (*Service, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return nil, errors.New("the URL cannot be parsed") // whose error quotes it, with a password that may be in it
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

// transport has no proxy: the environment is not read here.
func transport(config *tls.Config) *http.Transport {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return &http.Transport{
		TLSClientConfig:        config.Clone(),
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    32, // questions at one time, where the service speaks HTTP/1 only
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		// A connection whose other end is gone is found out and left; otherwise every
		// question would go that way until the kernel gives up.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// Close closes the connections on which nothing is asked.
func (s *Service) Close() { s.client.CloseIdleConnections() }

type review[Spec, Status any] struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Spec       *Spec   `json:"spec,omitempty"`
	Status     *Status `json:"status,omitempty"`
}

// Ask puts a review with spec to s and returns the status that it comes back with.
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
	// The spec that comes back is of no interest, and need not be one.
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

// attempt posts the question once.
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
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		return nil, &statusError{answer.StatusCode, answer.Header.Get("Retry-After") != ""}
	case err != nil:
		return nil, fmt.Errorf("read the answer: %w", err)
	case len(body) > MaxAnswer:
		return nil, fmt.Errorf("the answer has more than %d bytes", MaxAnswer)
	}
	return body, nil
}
