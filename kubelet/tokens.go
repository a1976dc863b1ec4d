package kubelet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
)

// tokenCache caches the tokens of projected volumes.
type tokenCache struct {
	mu     sync.Mutex
	tokens map[tokenKey]cachedToken // guarded by mu
}

type tokenKey struct {
	pod    podUID
	volume string
	path   string
}

type cachedToken struct {
	token          string
	renew, expires time.Time
}

// token returns a service account token bound to the pod. It requests a new one after four fifths
// of its lifetime. If that fails, it returns the old one while it is valid.
func (k *Kubelet) token(ctx context.Context, pod *corev1.Pod, volume string, p *corev1.ServiceAccountTokenProjection) (string, error) {
	if k.config.Tokens == nil {
		return "", errors.New("this kubelet has no access to service account tokens")
	}
	key := tokenKey{pod.UID, volume, p.Path}
	k.tokens.mu.Lock()
	have, known := k.tokens.tokens[key]
	k.tokens.mu.Unlock()
	now := time.Now()
	if known && now.Before(have.renew) {
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
	issued, err := k.config.Tokens(ctx, pod.Namespace, account, request)
	if err != nil && known && now.Before(have.expires) {
		return have.token, nil
	}
	if err != nil {
		return "", fmt.Errorf("failed to fetch token: %w", err)
	}
	expires := issued.Status.ExpirationTimestamp.Time
	k.tokens.mu.Lock()
	defer k.tokens.mu.Unlock()
	k.tokens.tokens[key] = cachedToken{token: issued.Status.Token, renew: now.Add(expires.Sub(now) * 4 / 5), expires: expires}
	return issued.Status.Token, nil
}

// forget drops the tokens of a deleted pod.
func (c *tokenCache) forget(uid podUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.tokens {
		if key.pod == uid {
			delete(c.tokens, key)
		}
	}
}
