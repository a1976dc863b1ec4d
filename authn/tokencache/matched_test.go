package tokencache_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/tokencache"
	"github.com/planekit/planekit/authn/user"
)

// TestMatchedIsRemembered asks twice for audiences: the answer out of memory tells
// which matched, and what there was to say beside, as the first did.
func TestMatchedIsRemembered(t *testing.T) {
	asked := 0
	cache, err := tokencache.New(tokencache.Config{Authenticator: authn.Func(func(r *http.Request) (*user.Info, bool, error) {
		asked++
		authn.ReportMatched(r.Context(), []string{"vault"})
		authn.Annotate(r.Context(), "example.com/realm", "retail")
		return &user.Info{Name: "jane"}, true, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, matched := authn.CollectMatched(authn.WithAudiences(t.Context(), []string{"vault", "registry"}))
		ctx, annotations := authn.CollectAnnotations(ctx)
		r := httptest.NewRequest(http.MethodGet, "/", nil).WithContext(ctx)
		r.Header.Set("Authorization", "Bearer abc")
		if _, known, err := cache.Authenticate(r); !known || err != nil {
			t.Fatal(known, err)
		}
		if got, reported := matched(); !reported || !slices.Equal(got, []string{"vault"}) {
			t.Errorf("matched %v, %v", got, reported)
		}
		if got := annotations(); !slices.Equal(got, []authn.Annotation{{Key: "example.com/realm", Value: "retail"}}) {
			t.Errorf("annotated %v", got)
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}
