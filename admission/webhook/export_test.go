package webhook

import (
	"context"
	"net/http"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/patched"
	"k8s.io/apimachinery/pkg/types"
)

// Knows reports whether the webhook of that name is asked by now.
func (p *Plugin) Knows(name string) bool {
	for _, list := range []*[]*hook{p.mutating.Load(), p.validating.Load()} {
		if list == nil {
			continue
		}
		for _, h := range *list {
			if h.name == name {
				return true
			}
		}
	}
	return false
}

// Through has all webhooks of now asked through t.
func (p *Plugin) Through(t http.RoundTripper) {
	for _, list := range []*[]*hook{p.mutating.Load(), p.validating.Load()} {
		if list == nil {
			continue
		}
		for _, h := range *list {
			h.caller.client.HTTP.Transport = t
		}
	}
}

// ReadReview reads an answer; for fuzzing.
func ReadReview(data []byte, uid types.UID, mutates bool) error {
	for _, version := range []string{v1beta1, v1} {
		if _, err := readReview(data, version, uid, mutates); err != nil {
			return err
		}
	}
	return nil
}

// Patched applies an answer's patch to r's object; for fuzzing.
func Patched(ctx context.Context, r *admission.Request, patch []byte) (any, error) {
	q := &question{sent: r, r: r}
	if err := q.complete(); err != nil {
		return nil, err
	}
	return (&hook{name: "fuzz", patches: &patched.Decoder{}}).patched(ctx, q, patch)
}
