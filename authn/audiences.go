package authn

import (
	"context"
	"slices"
)

// audiencesKey is the key of a context's audiences.
type audiencesKey struct{}

// WithAudiences returns a context in which a credential counts only if it is
// meant for one of audiences. Whoever checks a credential on behalf of somebody
// else, as a TokenReview does, says so in the context of the request that it
// has authenticated. Authenticators whose credentials name audiences must honour
// it; for the others [MeantFor] does.
//
// An empty list asks for nothing in particular: it is the same as none.
func WithAudiences(ctx context.Context, audiences []string) context.Context {
	return context.WithValue(ctx, audiencesKey{}, slices.Clone(audiences))
}

// Audiences returns the audiences that a credential must be meant for, and
// false if the context does not say: then an authenticator's own are meant. The
// list must not be changed.
func Audiences(ctx context.Context) ([]string, bool) {
	audiences, _ := ctx.Value(audiencesKey{}).([]string)
	return audiences, len(audiences) > 0
}
