package authn_test

import (
	"slices"
	"testing"

	"github.com/planekit/planekit/authn"
)

func TestAudiences(t *testing.T) {
	if got, ok := authn.Audiences(t.Context()); ok || got != nil {
		t.Errorf("nothing said: %v, %v", got, ok)
	}
	wanted := []string{"vault", "registry"}
	ctx := authn.WithAudiences(t.Context(), wanted)
	wanted[0] = "changed"
	if got, ok := authn.Audiences(ctx); !ok || !slices.Equal(got, []string{"vault", "registry"}) {
		t.Errorf("got %v, %v", got, ok)
	}
	// The innermost counts, and an empty list takes the demand back.
	if got, ok := authn.Audiences(authn.WithAudiences(ctx, []string{"other"})); !ok || !slices.Equal(got, []string{"other"}) {
		t.Errorf("got %v, %v", got, ok)
	}
	if got, ok := authn.Audiences(authn.WithAudiences(ctx, nil)); ok {
		t.Errorf("an empty list: %v", got)
	}
}
