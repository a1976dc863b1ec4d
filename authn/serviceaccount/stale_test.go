package serviceaccount_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/authn"
)

// TestStaleTokens: the use of a token that should have been replaced is annotated each time, also
// for a cached token.
func TestStaleTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g := grant()
		fresh := w.sign(t, g)
		g.WarnAfter = 10 * time.Minute
		token := w.sign(t, g)
		annotated := func(token string) []authn.Annotation {
			t.Helper()
			ctx, annotations := authn.CollectAnnotations(t.Context())
			if _, known, err := w.authenticator.Authenticate(bearing(token).WithContext(ctx)); !known || err != nil {
				t.Fatal(known, err)
			}
			return annotations()
		}
		for _, at := range []struct {
			wait time.Duration
			want string
		}{
			{0, ""},
			{10 * time.Minute, ""},
			{time.Second, "subject: system:serviceaccount:shop:web, seconds after warning threshold: 1"},
			{30 * time.Minute, "subject: system:serviceaccount:shop:web, seconds after warning threshold: 1801"},
		} {
			time.Sleep(at.wait)
			var want []authn.Annotation
			if at.want != "" {
				want = []authn.Annotation{{Key: "authentication.k8s.io/stale-token", Value: at.want}}
			}
			if got := annotated(token); !slices.Equal(got, want) {
				t.Errorf("after another %v: %v, want %v", at.wait, got, want)
			}
			if got := annotated(fresh); len(got) != 0 {
				t.Errorf("without a threshold: %v", got)
			}
		}
	})
}
