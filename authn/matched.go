package authn

import (
	"context"
	"sync/atomic"
)

// matchedKey is the context key of the collected audiences.
type matchedKey struct{}

// CollectMatched returns a context in which authenticators report which of the requested audiences
// (see [WithAudiences]) a credential is meant for, and a function that returns them, or false if
// none were reported.
//
// A report is valid only together with a user. A user without a report means that the credentials
// name no audiences: they are meant for the audiences of this program, and a caller that requires
// other audiences must refuse them.
func CollectMatched(ctx context.Context) (context.Context, func() (audiences []string, reported bool)) {
	reported := new(atomic.Pointer[[]string])
	return context.WithValue(ctx, matchedKey{}, reported), func() ([]string, bool) {
		if got := reported.Load(); got != nil {
			return *got, true
		}
		return nil, false
	}
}

// ReportMatched reports the requested audiences for which the accepted credential is meant. It does
// nothing if the context does not collect them. A caching authenticator must record the reports of
// the authenticator it wraps and replay them on a hit. The list must not be changed afterwards.
func ReportMatched(ctx context.Context, audiences []string) {
	if reported, ok := ctx.Value(matchedKey{}).(*atomic.Pointer[[]string]); ok {
		reported.Store(&audiences)
	}
}
