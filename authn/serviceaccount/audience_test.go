package serviceaccount_test

import (
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/serviceaccount"
)

// A token is valid only for the audiences that the request requires: not even for the API server
// otherwise, whether or not the token is cached.
func TestAudiencesAskedFor(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct {
		name          string
		token, asked  []string
		want          []string // none: refused
		andAnother    []string
		wantOfAnother []string
	}{
		{name: "nothing asked", token: []string{"api", "vault"}, want: []string{"api"}},
		{name: "one", token: []string{"vault"}, asked: []string{"vault"}, want: []string{"vault"}, andAnother: []string{"api"}},
		{name: "some", token: []string{"vault", "api", "db"}, asked: []string{"db", "x", "vault"}, want: []string{"vault", "db"},
			andAnother: []string{"api"}, wantOfAnother: []string{"api"}},
		{name: "ours, but another's is asked", token: []string{"api"}, asked: []string{"vault"}},
		{name: "another's, but nothing asked", token: []string{"vault"}},
		{name: "ours", token: []string{"api"}, want: []string{"api"}, andAnother: []string{"vault"}},
	} {
		g := grant()
		g.Audiences = test.token
		token := w.sign(t, g)
		ask := func(asked, want []string) {
			t.Helper()
			ctx, matched := authn.CollectMatched(authn.WithAudiences(t.Context(), asked))
			u, known, err := w.authenticator.Authenticate(bearing(token).WithContext(ctx))
			got, reported := matched()
			if known != (len(want) > 0) || known != (u != nil) || known != (err == nil) || reported != known || !slices.Equal(got, want) {
				t.Errorf("%s, asked %v: %v, %v, matched %v, want %v", test.name, asked, known, err, got, want)
			}
		}
		ask(test.asked, test.want)
		ask(test.asked, test.want) // out of the cache
		if test.andAnother != nil {
			ask(test.andAnother, test.wantOfAnother)
		}
	}
}

// What others may keep of the documents, and for how long, as from kube-apiserver.
func TestHandlersAsKubernetes(t *testing.T) {
	w := newWorld(t)
	for path, media := range map[string]string{serviceaccount.ConfigurationPath: "application/json", serviceaccount.JWKSPath: "application/jwk-set+json"} {
		for method, want := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405} {
			recorder := httptest.NewRecorder()
			serviceaccount.Handlers(issuer, issuer+serviceaccount.JWKSPath, w.keys)[path].ServeHTTP(recorder, httptest.NewRequest(method, path, nil))
			h := recorder.Header()
			if recorder.Code != want || want == 200 && (h.Get("Content-Type") != media || h.Get("Cache-Control") != "public, max-age=3600") {
				t.Errorf("%s %s = %d, %v, want %d, and if 200 Content-Type %s and Cache-Control public, max-age=3600",
					method, path, recorder.Code, h, want, media)
			}
		}
	}
}
