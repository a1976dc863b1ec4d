package extender

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// MaxAnswer is the maximum size of an answer, in bytes, beyond twice the size of the question: both contain
// the nodes.
const MaxAnswer = 4 << 20

// Client asks one extender. It is safe for concurrent use.
type Client struct {
	config  Config
	name    string
	managed map[corev1.ResourceName]bool
	http    http.Client
}

// New validates c and returns a client. It does not connect yet.
func New(c Config) (*Client, error) {
	u, err := c.validate()
	if err != nil {
		return nil, fmt.Errorf("extender: %w", err)
	}
	if c.HTTPTimeout == 0 {
		c.HTTPTimeout = DefaultTimeout
	}
	if c.Transport == nil {
		c.Transport = transport(c.TLS)
	}
	managed := make(map[corev1.ResourceName]bool)
	for _, r := range c.ManagedResources {
		managed[r.Name] = true
	}
	return &Client{config: c, name: u.Redacted(), managed: managed, http: http.Client{
		Transport:     c.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// transport returns a transport without a proxy, because this package does not read the environment.
func transport(config *tls.Config) *http.Transport {
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return &http.Transport{
		TLSClientConfig:        config.Clone(),
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    32, // pods are bound concurrently
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// Name returns the extender's URL, without a password.
func (c *Client) Name() string { return c.name }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Interested reports whether the extender takes part in the scheduling of a pod: whether it manages
// one of the pod's resources, or any pod's.
func (c *Client) Interested(pod *corev1.Pod) bool {
	return len(c.managed) == 0 || c.manages(pod.Spec.Containers) || c.manages(pod.Spec.InitContainers)
}

func (c *Client) manages(containers []corev1.Container) bool {
	for i := range containers {
		r := &containers[i].Resources
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
			for name := range list {
				if c.managed[name] {
					return true
				}
			}
		}
	}
	return false
}

// ask sends a question and decodes the answer.
func (c *Client) ask(ctx context.Context, verb string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("%s: encode the question: %w", c.where(verb), err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.HTTPTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.config.address(verb), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: not a URL", c.where(verb)) // its error quotes the URL
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "planekit")
	response, err := c.http.Do(r)
	if err != nil {
		return err // it names the URL, without a password
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("failed %s with extender at URL %s/%s, code %d", verb, strings.TrimRight(c.name, "/"), verb, response.StatusCode)
	}
	limit := MaxAnswer + 2*len(body)
	data, err := io.ReadAll(io.LimitReader(response.Body, int64(limit)+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: read the answer: %w", c.where(verb), err)
	case len(data) > limit:
		return fmt.Errorf("%s: the answer has more than %d bytes", c.where(verb), limit)
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("%s: decode the answer: %w", c.where(verb), err)
	}
	return nil
}

// where names a verb of the extender in errors.
func (c *Client) where(verb string) string { return fmt.Sprintf("extender %q: %s", c.name, verb) }
