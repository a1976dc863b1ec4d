// Package tokens keeps the service account tokens of pods, and renews them in time.
package tokens

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Request issues a token through the token subresource of a service account.
type Request func(ctx context.Context, namespace, serviceAccount string, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)

// Cache holds the tokens of projected volumes. Its methods are safe for concurrent use.
type Cache struct {
	request Request
	// now returns the time by the clock of the machine, without a monotonic reading: tokens end by clocks, which jump.
	now func() time.Time

	mu     sync.Mutex
	tokens map[tokenKey]cachedToken // guarded by mu
}

// New returns an empty cache. Without request, the kubelet has no access to tokens.
func New(request Request) *Cache {
	return &Cache{request: request, now: func() time.Time { return time.Now().Round(0) }, tokens: map[tokenKey]cachedToken{}}
}

type tokenKey struct {
	pod    types.UID
	volume string
	path   string
}

type cachedToken struct {
	token                  string
	issued, renew, expires time.Time
}

// Token returns a service account token bound to the pod. It requests a new one after four fifths
// of its lifetime, and when the clock was set back to before it was issued: then it is not valid yet. If that
// fails, it returns the old one until it ends.
func (c *Cache) Token(ctx context.Context, pod *corev1.Pod, volume string, p *corev1.ServiceAccountTokenProjection) (string, error) {
	if c.request == nil {
		return "", errors.New("this kubelet has no access to service account tokens")
	}
	key := tokenKey{pod.UID, volume, p.Path}
	c.mu.Lock()
	have, known := c.tokens[key]
	c.mu.Unlock()
	now := c.now()
	if known && !now.Before(have.issued) && now.Before(have.renew) {
		return have.token, nil
	}
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	request := &authenticationv1.TokenRequest{}
	request.Spec.ExpirationSeconds = p.ExpirationSeconds
	if p.Audience != "" {
		request.Spec.Audiences = []string{p.Audience}
	}
	request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{
		Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID,
	}
	issued, err := c.request(ctx, pod.Namespace, account, request)
	if err != nil && known && now.Before(have.expires) {
		return have.token, nil
	}
	if err != nil {
		return "", fmt.Errorf("failed to fetch token: %w", err)
	}
	expires := issued.Status.ExpirationTimestamp.Time
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens[key] = cachedToken{token: issued.Status.Token, issued: now, renew: now.Add(expires.Sub(now) * 4 / 5), expires: expires}
	return issued.Status.Token, nil
}

// Forget drops the tokens of a deleted pod.
func (c *Cache) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.tokens {
		if key.pod == uid {
			delete(c.tokens, key)
		}
	}
}
