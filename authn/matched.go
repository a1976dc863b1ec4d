package authn

import (
	"context"
	"sync/atomic"
)

// matchedKey is the key of where a context collects the audiences that matched.
type matchedKey struct{}

// CollectMatched returns a context in which authenticators report for which of the
// audiences asked for (see [WithAudiences]) a credential is meant, and a function
// that returns what was reported, and false if nothing was.
//
// A report counts only together with the user: whoever gets no user forgets it. No
// report with a user means that the authenticator's credentials name no audiences;
// they are for the audiences of the program that the authenticator is part of, and
// whoever asks for others has to refuse them.
func CollectMatched(ctx context.Context) (context.Context, func() (audiences []string, reported bool)) {
	reported := new(atomic.Pointer[[]string])
	return context.WithValue(ctx, matchedKey{}, reported), func() ([]string, bool) {
		if got := reported.Load(); got != nil {
			return *got, true
		}
		return nil, false
	}
}

// ReportMatched reports that the credential which is about to be accepted is meant
// for these of the audiences asked for. Where nobody collects, it does nothing. An
// authenticator that answers out of memory must report again, what it has to
// collect itself if another gave the answer. The list must not be changed
// afterwards.
func ReportMatched(ctx context.Context, audiences []string) {
	if reported, ok := ctx.Value(matchedKey{}).(*atomic.Pointer[[]string]); ok {
		reported.Store(&audiences)
	}
}
