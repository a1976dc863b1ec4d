package authn_test

import (
	"slices"
	"testing"

	"github.com/planekit/planekit/authn"
)

func TestMatched(t *testing.T) {
	authn.ReportMatched(t.Context(), []string{"a"}) // the context does not collect
	ctx, matched := authn.CollectMatched(t.Context())
	if got, ok := matched(); ok || got != nil {
		t.Errorf("nothing reported: %v, %v", got, ok)
	}
	authn.ReportMatched(ctx, nil)
	if got, ok := matched(); !ok || len(got) != 0 {
		t.Errorf("none reported: %v, %v", got, ok)
	}
	authn.ReportMatched(ctx, []string{"a", "b"})
	if got, ok := matched(); !ok || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("two reported: %v, %v", got, ok)
	}
	// An inner collector hides reports from an outer one.
	inner, within := authn.CollectMatched(ctx)
	authn.ReportMatched(inner, []string{"c"})
	around, _ := matched()
	if got, ok := within(); !ok || !slices.Equal(got, []string{"c"}) || !slices.Equal(around, []string{"a", "b"}) {
		t.Errorf("within %v, around %v", got, around)
	}
}
