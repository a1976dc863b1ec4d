package nodes

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
)

const (
	// allowedTTL and deniedTTL are how long decisions are cached: the defaults of cacheAuthorizedTTL and
	// cacheUnauthorizedTTL in a KubeletConfiguration.
	allowedTTL = 5 * time.Minute
	deniedTTL  = 30 * time.Second
	// maxDecisions bounds the cache. When it is full, it is emptied.
	maxDecisions = 1024
	// reviewTimeout bounds a question to the API server.
	reviewTimeout = 10 * time.Second
)

// reviews asks the API server by SubjectAccessReview what the clients of a kubelet may do.
type reviews struct {
	api  *client.Client
	node string

	mu sync.Mutex
	// decisions are cached by the question; guarded by mu.
	decisions map[string]decision
}

type decision struct {
	allowed bool
	until   time.Time
}

func newReviews(api *client.Client, node string) *reviews {
	return &reviews{api: api, node: node, decisions: map[string]decision{}}
}

// authorize reports whether a user may use verb on a subresource of the node.
func (r *reviews) authorize(ctx context.Context, who string, groups []string, verb, subresource string) (bool, error) {
	groups = append(groups[:len(groups):len(groups)], user.Authenticated)
	key := strings.Join(append([]string{verb, subresource, who}, groups...), "\x00")
	if allowed, ok := r.cached(key); ok {
		return allowed, nil
	}
	allowed, err := r.ask(ctx, who, groups, verb, subresource)
	if err != nil {
		return false, fmt.Errorf("review access: %w", err)
	}
	r.remember(key, allowed)
	return allowed, nil
}

func (r *reviews) cached(key string) (allowed, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.decisions[key]
	return d.allowed, ok && time.Now().Before(d.until)
}

func (r *reviews) remember(key string, allowed bool) {
	ttl := deniedTTL
	if allowed {
		ttl = allowedTTL
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.decisions) >= maxDecisions {
		clear(r.decisions)
	}
	r.decisions[key] = decision{allowed: allowed, until: time.Now().Add(ttl)}
}

func (r *reviews) ask(ctx context.Context, who string, groups []string, verb, subresource string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who, Groups: groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Version: "v1", Resource: "nodes", Subresource: subresource, Name: r.node,
		},
	}}
	review.APIVersion, review.Kind = authorizationv1.SchemeGroupVersion.String(), "SubjectAccessReview"
	data, err := json.Marshal(&review)
	if err != nil {
		return false, err
	}
	answer, err := r.api.Do(ctx, client.Request{Method: http.MethodPost, Path: "/apis/authorization.k8s.io/v1/subjectaccessreviews", Body: data})
	if err != nil {
		return false, err
	}
	var answered authorizationv1.SubjectAccessReview
	if err := json.Unmarshal(answer.Body, &answered); err != nil {
		return false, err
	}
	return answered.Status.Allowed && !answered.Status.Denied, nil
}
