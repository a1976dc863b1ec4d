package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authn/webhook"
	"github.com/planekit/planekit/internal/webhook/webhooktest"
	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	service := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		json.NewDecoder(r.Body).Decode(&review)
		if review.Spec.Token == "s3cret" {
			review.Status.Authenticated = true
			review.Status.User = authenticationv1.UserInfo{Username: "jane", Groups: []string{"dev"}}
		}
		json.NewEncoder(w).Encode(review)
	}))
	defer service.Close()
	tokens, err := webhook.New(webhook.Config{URL: service.URL, Transport: service.Client().Transport})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tokens.Close()
	for _, token := range []string{"s3cret", "other"} {
		u, known, err := tokens.Authenticate(bearer(context.Background(), token))
		if err != nil {
			fmt.Println(known, err)
			continue
		}
		fmt.Println(u.Name, u.Groups, known)
	}
	// Output:
	// jane [dev] true
	// false the webhook does not know the bearer token
}

func bearer(ctx context.Context, token string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func start(t testing.TB, c webhook.Config) *webhook.Authenticator {
	t.Helper()
	a, err := webhook.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

// service answers every TokenReview with a status, and hands out what it was asked.
func service(t testing.TB, status string) (*webhooktest.Server, <-chan authenticationv1.TokenReview) {
	asked := make(chan authenticationv1.TokenReview, 10)
	return webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authenticationv1.TokenReview
		body := json.NewDecoder(r.Body)
		body.DisallowUnknownFields()
		if err := body.Decode(&review); err != nil || !webhooktest.Asked(r) {
			t.Errorf("%v: %s %v by %v", err, r.Method, r.Header, r.TLS.PeerCertificates)
		}
		asked <- review
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"status":%s}`, review.APIVersion, review.Kind, status)
	})), asked
}

func TestKnownUser(t *testing.T) {
	server, asked := service(t, `{"authenticated":true,"user":{"username":"jane","uid":"17","groups":["dev","ops"],"extra":{"scopes":["a","b"],"empty":[]}}}`)
	for _, version := range []string{"", "v1", "v1beta1"} {
		a := start(t, webhook.Config{URL: server.URL, TLS: server.TLS, Version: version})
		u, known, err := a.Authenticate(bearer(t.Context(), "s3cret"))
		want := &user.Info{Name: "jane", UID: "17", Groups: []string{"dev", "ops"}, Extra: map[string][]string{"scopes": {"a", "b"}, "empty": {}}}
		if !known || err != nil || !reflect.DeepEqual(u, want) {
			t.Fatalf("Authenticate with the version %q = %+v, %v, %v, want %+v", version, u, known, err, want)
		}
		if version == "" {
			version = "v1"
		}
		q := <-asked
		if q.APIVersion != "authentication.k8s.io/"+version || q.Kind != "TokenReview" ||
			!reflect.DeepEqual(q.Spec, authenticationv1.TokenReviewSpec{Token: "s3cret"}) {
			t.Errorf("asked %+v", q)
		}
	}
}

func TestNotMine(t *testing.T) {
	server, asked := service(t, `{"authenticated":true,"user":{"username":"jane"}}`)
	a := start(t, webhook.Config{URL: server.URL, TLS: server.TLS})
	for name, test := range map[string]struct {
		headers []string
		refused bool
	}{
		"no header":      {nil, false},
		"another scheme": {[]string{"Basic czNjcmV0"}, false},
		"no token":       {[]string{"Bearer "}, false},
		"two headers":    {[]string{"Bearer a", "Bearer b"}, true},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = test.headers
		if u, known, err := a.Authenticate(r); u != nil || known || (err != nil) != test.refused {
			t.Errorf("%s: Authenticate = %+v, %v, %v, want no user, false, an error: %v", name, u, known, err, test.refused)
		}
	}
	if len(asked) > 0 {
		t.Errorf("asked %+v", <-asked)
	}
}

// TestRefused has no answer end as the anonymous user.
func TestRefused(t *testing.T) {
	for status, want := range map[string]string{
		`{"authenticated":false}`: "the webhook does not know the bearer token",
		`{}`:                      "the webhook does not know the bearer token",
		`{"authenticated":false,"user":{"username":"jane"}}`:         "the webhook does not know the bearer token",
		`{"authenticated":false,"error":"token s3cret has expired"}`: "the webhook does not know the bearer token: token [token] has expired",
		`{"error":"expired","audiences":["a"]}`:                      "the webhook does not know the bearer token: expired",
	} {
		server, _ := service(t, status)
		a := start(t, webhook.Config{URL: server.URL, TLS: server.TLS})
		u, known, err := authn.Chain{a, anonymous.Authenticator{}}.Authenticate(bearer(t.Context(), "s3cret"))
		if u != nil || known || !errors.Is(err, webhook.ErrRefused) || err.Error() != want {
			t.Errorf("Authenticate with the answer %s = %+v, %v, %v, want no user, false, ErrRefused %q", status, u, known, err, want)
		}
	}
}

func TestAudiences(t *testing.T) {
	for name, test := range map[string]struct {
		own, context []string // of the API server, of a request
		answered     string
		asked        []string
		refused      bool
	}{
		"nobody says":                          {nil, nil, ``, nil, false},
		"nobody asks":                          {nil, nil, `"vault"`, nil, false},
		"own, confirmed":                       {[]string{"api", "b"}, nil, `"b","c"`, []string{"api", "b"}, false},
		"own, for others":                      {[]string{"api"}, nil, `"vault"`, []string{"api"}, true},
		"own, not said":                        {[]string{"api"}, nil, ``, []string{"api"}, false},
		"a context's, confirmed":               {[]string{"api"}, []string{"vault"}, `"vault"`, []string{"vault"}, false},
		"a context's, for others":              {[]string{"api"}, []string{"vault"}, `"api"`, []string{"vault"}, true},
		"a context's, not said":                {[]string{"api"}, []string{"vault"}, ``, []string{"vault"}, true},
		"a context's, not said, own are meant": {[]string{"api"}, []string{"vault", "api"}, ``, []string{"vault", "api"}, false},
		"a context's, not said, none own":      {nil, []string{"vault"}, ``, []string{"vault"}, true},
	} {
		server, asked := service(t, `{"authenticated":true,"user":{"username":"jane"},"audiences":[`+test.answered+`]}`)
		a := start(t, webhook.Config{URL: server.URL, TLS: server.TLS, Audiences: test.own})
		ctx := t.Context()
		if test.context != nil {
			ctx = authn.WithAudiences(ctx, test.context)
		}
		u, known, err := a.Authenticate(bearer(ctx, "s3cret"))
		if known == test.refused || (u == nil) != test.refused || errors.Is(err, webhook.ErrRefused) != test.refused {
			t.Errorf("%s: Authenticate = %+v, %v, %v, want no user, false and ErrRefused: %v", name, u, known, err, test.refused)
		}
		if q := <-asked; !slices.Equal(q.Spec.Audiences, test.asked) {
			t.Errorf("%s: asked for %q", name, q.Spec.Audiences)
		}
	}
}

// TestFailure has faults of the service: an error each, which says nothing of the
// token and does not quote it.
func TestFailure(t *testing.T) {
	const jane = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"jane"}}}`
	writes := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }
	}
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	for name, handler := range map[string]http.HandlerFunc{
		"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		},
		"huge":         writes(jane + strings.Repeat(" ", 1<<20)),
		"another kind": writes(strings.Replace(jane, "TokenReview", "SubjectAccessReview", 1)),
		"truncated":    writes(jane[:len(jane)-1]),
		"nameless":     writes(strings.Replace(jane, `"jane"`, `""`, 1)),
		"no user":      writes(strings.Replace(jane, `,"user":{"username":"jane"}`, ``, 1)),
		"401":          func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401); io.Copy(w, r.Body) },
		"echo":         func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) },
	} {
		var asked atomic.Int32
		server := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if name == "hangs" {
				io.Copy(io.Discard, r.Body)
			}
			handler(w, r)
		}))
		timeout := time.Minute
		if name == "hangs" {
			timeout = 50 * time.Millisecond
		}
		a := start(t, webhook.Config{URL: server.URL, TLS: server.TLS, BearerToken: "s3cret-of-ours", Timeout: timeout})
		for range 2 {
			u, known, err := authn.Chain{a, anonymous.Authenticator{}}.Authenticate(bearer(t.Context(), "s3cret"))
			if u != nil || known || err == nil || errors.Is(err, webhook.ErrRefused) || strings.Contains(err.Error(), "s3cret") ||
				!errors.Is(err, authn.ErrUnchecked) || !strings.Contains(err.Error(), ": authentication webhook: ") {
				t.Errorf("%s: Authenticate = %+v, %v, %v, want no user, false, an ErrUnchecked of the webhook that quotes no token",
					name, u, known, err)
			}
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("%s: asked %d times, want once each", name, n)
		}
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("a token was sent on with a redirect, %d times", n)
	}
}

// TestDown uses an address without a listener: the context ends the attempts.
func TestDown(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	server.Close()
	a := start(t, webhook.Config{URL: server.URL})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	u, known, err := a.Authenticate(bearer(ctx, "s3cret"))
	if u != nil || known || err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Authenticate = %+v, %v, %v, want no user, false, connection refused and no token quoted", u, known, err)
	}
}

func TestFailsThenAnswers(t *testing.T) {
	var asked atomic.Int32
	server := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		io.WriteString(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"jane"}}}`)
	}))
	u, known, err := start(t, webhook.Config{URL: server.URL, TLS: server.TLS}).Authenticate(bearer(t.Context(), "s3cret"))
	if !known || err != nil || u.Name != "jane" || asked.Load() != 2 {
		t.Errorf("asked %d times: %+v %v %v", asked.Load(), u, known, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, c := range map[string]webhook.Config{
		"no URL":           {},
		"http":             {URL: "http://example.com"},
		"unknown version":  {URL: "https://example.com", Version: "v2"},
		"negative timeout": {URL: "https://example.com", Timeout: -1},
		"a token of lines": {URL: "https://example.com", BearerToken: "s3cret\n"},
	} {
		if _, err := webhook.New(c); err == nil || !strings.HasPrefix(err.Error(), "authentication webhook: ") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: New has the error %v, want one of the webhook that does not quote the token", name, err)
		}
	}
}

// FuzzAnswer wants a name for everybody who is known, and no token in an error.
func FuzzAnswer(f *testing.F) {
	const head = `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":`
	for _, seed := range []string{"", "null", head + `{}}`, head + `{"authenticated":true}}`, head + `{"authenticated":true,"user":{"username":"jane","groups":["a"],"extra":{"b":["c"]}}}}`,
		head + `{"error":"s3cret","authenticated":false}}`} {
		f.Add([]byte(seed))
	}
	var body []byte
	a := start(f, webhook.Config{URL: "https://example.com", Transport: transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(string(body)))}, nil
	})})
	f.Fuzz(func(t *testing.T, data []byte) {
		body = data
		u, known, err := a.Authenticate(bearer(t.Context(), "s3cret"))
		if known != (err == nil) || known != (u != nil) || (known && u.Name == "") {
			t.Fatalf("Authenticate with the answer %q = %+v, %v, %v, want either an error or a known user with a name", data, u, known, err)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Fatal(err)
		}
	})
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
