package authn_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/planekit/planekit/authn"
)

func TestAnnotations(t *testing.T) {
	authn.Annotate(t.Context(), "a", "1") // the context does not collect
	ctx, annotations := authn.CollectAnnotations(t.Context())
	if got := annotations(); len(got) != 0 {
		t.Errorf("nothing annotated: %v", got)
	}
	authn.Annotate(ctx, "a", "1")
	before := annotations()
	authn.Annotate(ctx, "b", "2")
	want := []authn.Annotation{{Key: "a", Value: "1"}, {Key: "b", Value: "2"}}
	if got := annotations(); !slices.Equal(got, want) || len(before) != 1 {
		t.Errorf("%v, and before %v", got, before)
	}
	// An inner collector hides annotations from an outer one.
	inner, within := authn.CollectAnnotations(ctx)
	authn.Annotate(inner, "c", "3")
	if got := within(); len(got) != 1 || len(annotations()) != 2 {
		t.Errorf("within %v, around %v", got, annotations())
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			authn.Annotate(ctx, "d", "4")
			annotations()
		})
	}
	all.Wait()
	if got := annotations(); len(got) != 10 {
		t.Errorf("annotations() = %d, %v, want 10", len(got), got)
	}
}
