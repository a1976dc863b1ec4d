package authn

import (
	"context"
	"slices"
)

// audiencesKey is the context key of the audiences.
type audiencesKey struct{}

// WithAudiences returns a context in which a credential is valid only if it is meant for one of
// audiences. A handler that checks a credential for another party, such as a TokenReview, sets it
// on the request that it authenticates. Authenticators whose credentials name audiences must honour
// it; for other authenticators, [MeantFor] does.
//
// An empty list is the same as none.
func WithAudiences(ctx context.Context, audiences []string) context.Context {
	return context.WithValue(ctx, audiencesKey{}, slices.Clone(audiences))
}

// Audiences returns the audiences that a credential must be meant for. It returns false if the
// context has none; authenticators then use their own. The list must not be changed.
func Audiences(ctx context.Context) ([]string, bool) {
	audiences, _ := ctx.Value(audiencesKey{}).([]string)
	return audiences, len(audiences) > 0
}
