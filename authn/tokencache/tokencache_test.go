package tokencache_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/tokencache"
	"github.com/planekit/planekit/authn/user"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func bearer(ctx context.Context, token string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, "POST", "/api", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func Example() {
	asked := 0
	slow := authn.Func(func(r *http.Request) (*user.Info, bool, error) {
		asked++
		return &user.Info{Name: "jane"}, true, nil
	})
	tokens, err := tokencache.New(tokencache.Config{Authenticator: slow})
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 {
		u, known, err := tokens.Authenticate(bearer(context.Background(), "s3cret"))
		fmt.Println(u.Name, known, err)
	}
	fmt.Println("asked", asked)
	// Output:
	// jane true <nil>
	// jane true <nil>
	// jane true <nil>
	// asked 1
}

// TestTimes: users and refusals are remembered for their times, and what could not
// be checked is not.
func TestTimes(t *testing.T) {
	refused := errors.New("refused")
	unreachable := &url.Error{Op: "Post", URL: "https://hook", Err: errors.New("connection refused")}
	for name, test := range map[string]struct {
		config tokencache.Config
		known  bool
		err    error
		at     []time.Duration // the moments at which the authenticator is asked, of one question a second
	}{
		"known":               {known: true, at: seconds(0, 10, 20)},
		"known for longer":    {config: tokencache.Config{SuccessTTL: 15 * time.Second}, known: true, at: seconds(0, 15)},
		"refused":             {err: refused, at: seconds(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)},
		"refused, remembered": {config: tokencache.Config{FailureTTL: 7 * time.Second}, err: refused, at: seconds(0, 7, 14)},
		"nobody's":            {config: tokencache.Config{FailureTTL: 7 * time.Second}, at: seconds(0, 7, 14)},
		"not checked":         {config: tokencache.Config{FailureTTL: time.Hour}, err: fmt.Errorf("hook: %w", authn.ErrUnchecked), at: everySecond()},
		"not reachable":       {config: tokencache.Config{FailureTTL: time.Hour}, err: fmt.Errorf("hook: %w", unreachable), at: everySecond()},
		"deadline":            {config: tokencache.Config{FailureTTL: time.Hour}, err: context.DeadlineExceeded, at: everySecond()},
		"canceled":            {config: tokencache.Config{FailureTTL: time.Hour}, err: context.Canceled, at: everySecond()},
		"partly not checked":  {config: tokencache.Config{FailureTTL: time.Hour}, err: errors.Join(refused, authn.ErrUnchecked), at: everySecond()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var at []time.Duration
				test.config.Authenticator = authn.Func(func(*http.Request) (*user.Info, bool, error) {
					at = append(at, time.Since(start))
					if test.known {
						return &user.Info{Name: "jane"}, true, nil
					}
					return nil, false, test.err
				})
				c := must(tokencache.New(test.config))
				for range 21 {
					u, known, err := c.Authenticate(bearer(t.Context(), "s3cret"))
					if known != test.known || !errors.Is(err, test.err) || known && u.Name != "jane" {
						t.Errorf("after %v: %v, %v, %v", time.Since(start), u, known, err)
					}
					time.Sleep(time.Second)
				}
				if fmt.Sprint(at) != fmt.Sprint(test.at) {
					t.Errorf("asked at %v, want %v", at, test.at)
				}
			})
		})
	}
}

func seconds(at ...int) []time.Duration {
	out := make([]time.Duration, len(at))
	for i, n := range at {
		out[i] = time.Duration(n) * time.Second
	}
	return out
}

func everySecond() []time.Duration {
	out := make([]int, 21)
	for i := range out {
		out[i] = i
	}
	return seconds(out...)
}

// TestWhatIsAsked: the authenticator sees only the token and the audiences of the first caller, and
// answers for other audiences are separate.
func TestWhatIsAsked(t *testing.T) {
	type key struct{}
	var asked []string
	c := must(tokencache.New(tokencache.Config{Authenticator: authn.Func(func(r *http.Request) (*user.Info, bool, error) {
		token, _, _ := authn.BearerToken(r)
		audiences, _ := authn.Audiences(r.Context())
		asked = append(asked, token+" "+strings.Join(audiences, "+"))
		if len(r.Header) != 1 || r.URL.Path != "/" || r.TLS != nil || r.Context().Value(key{}) != nil {
			t.Errorf("asked with %v %v", r.URL, r.Header)
		}
		if _, ok := r.Context().Deadline(); !ok {
			t.Error("asked for ever")
		}
		return &user.Info{Name: strings.Join(audiences, "+") + "."}, true, nil
	})}))
	ctx := context.WithValue(t.Context(), key{}, "private")
	for _, audiences := range [][]string{nil, {"a"}, {"b"}, {"a", "b"}, {"ab"}} {
		for range 2 {
			r := bearer(authn.WithAudiences(ctx, audiences), "s3cret")
			r.Header.Set("X-Remote-User", "root")
			if u, known, err := c.Authenticate(r); !known || u.Name != strings.Join(audiences, "+")+"." {
				t.Errorf("Authenticate for %q = %v, %v, %v, want %q", audiences, u, known, err, strings.Join(audiences, "+")+".")
			}
		}
	}
	if want := "s3cret |s3cret a|s3cret b|s3cret a+b|s3cret ab"; strings.Join(asked, "|") != want {
		t.Errorf("asked %q", asked)
	}
}

func TestNotATokenOfOurs(t *testing.T) {
	c := must(tokencache.New(tokencache.Config{Authenticator: authn.Func(func(*http.Request) (*user.Info, bool, error) {
		t.Error("asked")
		return nil, false, nil
	})}))
	for name, headers := range map[string][]string{
		"none": nil, "basic": {"Basic eA=="}, "two": {"Bearer a", "Bearer a"}, "empty": {"Bearer "},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = headers
		if _, known, err := c.Authenticate(r); known || (err != nil) != (name == "two") {
			t.Errorf("%s: known %v, error %v", name, known, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	a := authn.Chain{}
	for name, c := range map[string]tokencache.Config{
		"nobody to ask": {},
		"negative":      {Authenticator: a, FailureTTL: -1},
		"tokens":        {Authenticator: a, MaxTokens: -1},
	} {
		if _, err := tokencache.New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	c := must(tokencache.New(tokencache.Config{Authenticator: authn.Func(func(*http.Request) (*user.Info, bool, error) {
		return &user.Info{Name: "jane"}, true, nil
	}), SuccessTTL: time.Hour}))
	for _, n := range []int{32, 1000} {
		for _, audiences := range [][]string{nil, {"https://kubernetes.default.svc"}} {
			r := bearer(authn.WithAudiences(b.Context(), audiences), strings.Repeat("x", n))
			b.Run(fmt.Sprintf("bytes=%d/audiences=%d", n, len(audiences)), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, known, err := c.Authenticate(r); !known {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
