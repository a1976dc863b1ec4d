package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/planekit/planekit/internal/hookclient"
	registration "k8s.io/api/admissionregistration/v1"
)

// maxReply bounds an answer: a patch with the largest object in base64, and the rest of the
// answer.
const maxReply = 8 << 20

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
type caller struct{ client *hookclient.Client }

// newCaller returns a caller for w. Errors in w are returned when it is called.
func newCaller(w registration.WebhookClientConfig, c *Config) *caller {
	to := hookclient.Config{URL: w.URL, CABundle: w.CABundle, Certificate: c.Certificate}
	if c.Resolver != nil {
		to.Resolver = c.Resolver
	}
	if s := w.Service; s != nil {
		to.Service = &hookclient.Service{Namespace: s.Namespace, Name: s.Name, Path: s.Path}
		if s.Port != nil {
			to.Service.Port = *s.Port
		}
	}
	return &caller{hookclient.New(to)}
}

func (b *caller) close() { b.client.Close() }

// post sends body and returns the answer. It sends the time left until ctx ends as the timeout.
func (b *caller) post(ctx context.Context, body []byte) ([]byte, error) {
	left := time.Duration(0)
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	answer, err := b.client.Post(ctx, body, left, maxReply)
	if err != nil {
		return nil, err
	}
	if answer.Code < 200 || answer.Code > 299 {
		return nil, fmt.Errorf("the webhook answered %s", answer.Status)
	}
	return answer.Body, nil
}
