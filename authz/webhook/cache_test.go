package webhook_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/webhook"
)

// remote answers in the process: status, after wait if it is set.
type remote struct {
	asked  atomic.Int32
	status atomic.Value // string
	wait   chan struct{}
}

func answering(status string) *remote {
	s := &remote{}
	s.status.Store(status)
	return s
}

func (s *remote) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked.Add(1)
	if s.wait != nil {
		select {
		case <-s.wait:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	body := `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":` + s.status.Load().(string) + `}`
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func (s *remote) want(t *testing.T, what string, asked int32) {
	t.Helper()
	if got := s.asked.Load(); got != asked {
		t.Errorf("%s: asked %d times, want %d", what, got, asked)
	}
}

const yes, no, unsure = `{"allowed":true}`, `{"denied":true}`, `{}`

func decide(a authz.Authorizer, at authz.Attributes) authz.Decision {
	d, _, _ := a.Authorize(context.Background(), at)
	return d
}

var getPods = authz.Attributes{User: jane, Verb: "get", Namespace: "n", Resource: "pods"}

func TestAnswersExpire(t *testing.T) {
	for name, test := range map[string]struct {
		status string
		config webhook.Config
		want   authz.Decision
		ttl    time.Duration
	}{
		"allow":               {yes, webhook.Config{}, authz.Allow, 5 * time.Minute},
		"deny":                {no, webhook.Config{}, authz.Deny, 30 * time.Second},
		"no opinion":          {unsure, webhook.Config{}, authz.NoOpinion, 30 * time.Second},
		"both":                {`{"allowed":true,"denied":true}`, webhook.Config{}, authz.Deny, 30 * time.Second},
		"allow, of one's own": {yes, webhook.Config{AuthorizedTTL: time.Hour}, authz.Allow, time.Hour},
		"deny, of one's own":  {no, webhook.Config{UnauthorizedTTL: time.Second}, authz.Deny, time.Second},
		"allow, never":        {yes, webhook.Config{AuthorizedTTL: -1}, authz.Allow, 0},
		"deny, never":         {no, webhook.Config{UnauthorizedTTL: -1}, authz.Deny, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				service := answering(test.status)
				c := test.config
				c.URL, c.Transport = "https://example.com", service
				a := start(t, c)
				for range 2 {
					if got := decide(a, getPods); got != test.want {
						t.Error(got)
					}
				}
				if test.ttl == 0 {
					service.want(t, "not remembered", 2)
					return
				}
				service.want(t, "at once", 1)
				time.Sleep(test.ttl - time.Nanosecond)
				decide(a, getPods)
				service.want(t, "just before", 1)
				time.Sleep(time.Nanosecond)
				decide(a, getPods)
				service.want(t, "then", 2)
			})
		})
	}
}

// TestEveryAttributeCounts asks questions that differ in one thing each.
func TestEveryAttributeCounts(t *testing.T) {
	service := answering(yes)
	a := start(t, webhook.Config{URL: "https://example.com", Transport: service})
	with := func(change func(*authz.Attributes, *user.Info)) authz.Attributes {
		at, u := getPods, *getPods.User
		at.User = &u
		change(&at, &u)
		return at
	}
	questions := []authz.Attributes{
		getPods,
		with(func(at *authz.Attributes, _ *user.Info) { at.Verb = "list" }),
		with(func(at *authz.Attributes, _ *user.Info) { at.Group = "apps" }),
		with(func(at *authz.Attributes, _ *user.Info) { at.Version = "v1" }),
		with(func(at *authz.Attributes, _ *user.Info) { at.Resource = "secrets" }),
		with(func(at *authz.Attributes, _ *user.Info) { at.Subresource = "log" }),
		with(func(at *authz.Attributes, _ *user.Info) { at.Namespace = "" }),
		with(func(at *authz.Attributes, _ *user.Info) { at.Namespace, at.Name = "", "n" }),
		with(func(at *authz.Attributes, _ *user.Info) { at.Name = "web" }),
		with(func(at *authz.Attributes, _ *user.Info) { at.Resource, at.Namespace, at.Path = "", "", "/" }),
		with(func(_ *authz.Attributes, u *user.Info) { u.Name = "joe" }),
		with(func(_ *authz.Attributes, u *user.Info) { u.UID = "18" }),
		with(func(_ *authz.Attributes, u *user.Info) { u.Groups = u.Groups[:1] }),
		with(func(_ *authz.Attributes, u *user.Info) { u.Groups = []string{"dev" + user.Authenticated} }),
		with(func(_ *authz.Attributes, u *user.Info) { u.Groups = nil }),
		with(func(_ *authz.Attributes, u *user.Info) { u.Extra = nil }),
		with(func(_ *authz.Attributes, u *user.Info) { u.Extra = map[string][]string{"scopes": {"a"}} }),
		with(func(_ *authz.Attributes, u *user.Info) { u.Extra = map[string][]string{"scopes": {"b", "a"}} }),
		with(func(_ *authz.Attributes, u *user.Info) { u.Extra = map[string][]string{"scope": {"a", "b"}} }),
		with(func(at *authz.Attributes, _ *user.Info) { at.User = nil }),
		with(func(at *authz.Attributes, _ *user.Info) { at.User = &user.Info{} }),
	}
	for range 3 {
		for _, at := range questions {
			decide(a, at)
		}
	}
	service.want(t, "all", int32(len(questions)))
}

// TestUserIsCopied changes a user after they were asked for: what is remembered
// must not change with them.
func TestUserIsCopied(t *testing.T) {
	service := answering(yes)
	a := start(t, webhook.Config{URL: "https://example.com", Transport: service})
	joe := func() authz.Attributes {
		at := getPods
		at.User = &user.Info{Name: "joe", Groups: []string{"dev"}, Extra: map[string][]string{"scopes": {"a"}}}
		return at
	}
	at := joe()
	decide(a, at)
	service.status.Store(no)
	at.User.Groups[0], at.User.Extra["scopes"][0] = "ops", "b"
	if got := decide(a, at); got != authz.Deny {
		t.Errorf("the groups of another time: %v", got)
	}
	if got := decide(a, joe()); got != authz.Allow {
		t.Errorf("what was remembered has changed: %v", got)
	}
	service.want(t, "joe before and after", 2)
}

func TestCacheIsBounded(t *testing.T) {
	service := answering(yes)
	a := start(t, webhook.Config{URL: "https://example.com", Transport: service})
	ask := func(i int) {
		at := getPods
		at.Name = fmt.Sprint(i)
		decide(a, at)
	}
	for i := range 8192 {
		ask(i)
	}
	ask(0) // used again
	service.want(t, "full", 8192)
	ask(8192)
	ask(0)
	service.want(t, "one more", 8193)
	ask(1) // the least recently used
	service.want(t, "the one forgotten", 8194)

	long := getPods
	long.Name = strings.Repeat("a", 10_000)
	decide(a, long)
	decide(a, long)
	service.want(t, "a long name", 8196)
}

func TestEqualQuestionsAreAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := answering(yes)
		service.wait = make(chan struct{})
		a := start(t, webhook.Config{URL: "https://example.com", Transport: service})
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				at := getPods
				at.Name = fmt.Sprint(i % 2)
				if got := decide(a, at); got != authz.Allow {
					t.Error(got)
				}
			})
		}
		synctest.Wait()
		service.want(t, "two questions", 2)
		close(service.wait)
		all.Wait()
		service.want(t, "two questions, answered", 2)
	})
}

// TestWhoAsksGoesAway checks that a waiting caller asks again when the calling request is
// cancelled.
func TestWhoAsksGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := answering(yes)
		service.wait = make(chan struct{})
		a := start(t, webhook.Config{URL: "https://example.com", Transport: service})
		asks := func(ctx context.Context) <-chan authz.Decision {
			done := make(chan authz.Decision, 1)
			go func() {
				got, _, err := a.Authorize(ctx, getPods)
				if (err != nil) == (got == authz.Allow) {
					t.Errorf("%v with %v", got, err)
				}
				done <- got
			}()
			synctest.Wait()
			return done
		}
		leading, leave := context.WithCancel(t.Context())
		waiting, leaveToo := context.WithCancel(t.Context())
		first, second, third := asks(leading), asks(waiting), asks(t.Context())
		service.want(t, "three ask", 1)
		leaveToo()
		if got := <-second; got != authz.NoOpinion {
			t.Errorf("who waited and left: %v", got)
		}
		leave()
		if got := <-first; got != authz.NoOpinion {
			t.Errorf("who asked and left: %v", got)
		}
		synctest.Wait()
		service.want(t, "another asks", 2)
		close(service.wait)
		if got := <-third; got != authz.Allow {
			t.Errorf("who stayed: %v", got)
		}
	})
}

// TestFailureIsShared spares a service that is down from everybody's attempts.
func TestFailureIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := answering(yes)
		service.wait = make(chan struct{}) // for ever
		a := start(t, webhook.Config{URL: "https://example.com", Transport: service, OnFailure: authz.Deny})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if got, _, err := a.Authorize(t.Context(), getPods); got != authz.Deny || err == nil {
					t.Errorf("Authorize(get pods) = %v, %v, want %v and an error", got, err, authz.Deny)
				}
			})
		}
		began := time.Now()
		all.Wait()
		if past := time.Since(began); past != 3*time.Second {
			t.Errorf("after %v", past)
		}
		service.want(t, "down", 1)
	})
}

// TestPanicLetsGo has a transport that panics: the question can be asked again.
func TestPanicLetsGo(t *testing.T) {
	service := answering(yes)
	panics := true
	a := start(t, webhook.Config{URL: "https://example.com", Transport: transport(func(r *http.Request) (*http.Response, error) {
		if panics {
			panic("transport")
		}
		return service.RoundTrip(r)
	})})
	func() {
		defer func() { recover() }()
		decide(a, getPods)
		t.Error("no panic")
	}()
	panics = false
	if got := decide(a, getPods); got != authz.Allow {
		t.Error(got)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestConcurrent has many ask what a few questions are, under the race detector.
func TestConcurrent(t *testing.T) {
	service := answering(yes)
	a := start(t, webhook.Config{URL: "https://example.com", Transport: service, AuthorizedTTL: time.Millisecond})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				at := getPods
				at.Name = fmt.Sprint(rand.IntN(10))
				if got := decide(a, at); got != authz.Allow {
					t.Error(got)
				}
			}
		})
	}
	all.Wait()
}

func TestRememberedWithoutAllocation(t *testing.T) {
	a := start(t, webhook.Config{URL: "https://example.com", Transport: answering(yes)})
	decide(a, getPods)
	if n := testing.AllocsPerRun(100, func() { decide(a, getPods) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRemembered(b *testing.B) {
	a := start(b, webhook.Config{URL: "https://example.com", Transport: answering(yes)})
	for i := range 8000 {
		at := getPods
		at.Name = fmt.Sprint(i)
		decide(a, at)
	}
	at := getPods
	at.Name = "4000"
	ctx := context.Background()
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			a.Authorize(ctx, at)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				a.Authorize(ctx, at)
			}
		})
	})
}
